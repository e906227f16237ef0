package stream

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// AppendMessage appends an AMQP 1.0 message: the body as one data section, and before it
// application properties where there are headers. A header is a string, an integer, a
// bool, a float64, a time.Time (milliseconds are kept), []byte or nil; another type is the error.
func AppendMessage(b, body []byte, headers map[string]any) ([]byte, error) {
	if len(headers) > 0 {
		var err error
		if b, err = appendHeaders(b, headers); err != nil {
			return b, err
		}
	}
	return appendSized(append(b, described, smallUlong, dataSection), binary8, body), nil
}

// appendSized appends text or bytes behind their length. The format of a longer one is 16
// above that of one below 256 bytes.
func appendSized[T string | []byte](b []byte, short byte, content T) []byte {
	if len(content) <= math.MaxUint8 {
		b = append(b, short, byte(len(content)))
	} else {
		b = order.AppendUint32(append(b, short+0x10), uint32(len(content)))
	}
	return append(b, content...)
}

// appendHeaders appends a section of names and values, sorted: a message has one form.
func appendHeaders(b []byte, headers map[string]any) ([]byte, error) {
	b = append(b, described, smallUlong, propertiesSection, map32, 0, 0, 0, 0)
	start := len(b)
	b = order.AppendUint32(b, uint32(2*len(headers)))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		b = appendSized(b, string8, name)
		var known bool
		if b, known = appendValue(b, headers[name]); !known {
			return b, fmt.Errorf("rabbitmq stream: header %q has the type %T, which no message carries", name, headers[name])
		}
	}
	order.PutUint32(b[start-4:], uint32(len(b)-start))
	return b, nil
}

func appendValue(b []byte, value any) (_ []byte, known bool) {
	switch v := value.(type) {
	case nil:
		return append(b, null), true
	case string:
		return appendSized(b, string8, v), true
	case []byte:
		return appendSized(b, binary8, v), true
	case bool:
		if v {
			return append(b, yes), true
		}
		return append(b, no), true
	case int:
		return appendLong(b, int64(v)), true
	case int32:
		return appendLong(b, int64(v)), true
	case int64:
		return appendLong(b, v), true
	case float64:
		return order.AppendUint64(append(b, double), math.Float64bits(v)), true
	case time.Time:
		return order.AppendUint64(append(b, timestamp), uint64(v.UnixMilli())), true
	default:
		return b, false
	}
}

func appendLong(b []byte, n int64) []byte {
	return order.AppendUint64(append(b, long), uint64(n))
}
