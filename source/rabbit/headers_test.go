package rabbit

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"pgregory.net/rapid"
)

// Headers that are larger than a frame end the connection. They are left out, those of
// keyfold's own last.
//
// Promise(partitions/full-headers)
func TestHeadersThatFitNoFrame(t *testing.T) {
	long := strings.Repeat("x", 300)
	own := amqp.Table{HeaderFirstSeen: int64(5), HeaderAttempts: int64(1), HeaderExchange: "shop"}
	for name, tc := range map[string]struct {
		room          int
		foreign, gets amqp.Table
	}{
		"all":            {1000, amqp.Table{"trace": long}, amqp.Table{"trace": long, HeaderFirstSeen: int64(5), HeaderAttempts: int64(1), HeaderExchange: "shop"}},
		"own":            {300, amqp.Table{"trace": long}, own},
		"not the errors": {300, amqp.Table{"trace": "t", HeaderErrors: long}, own},
		"what is needed": {50, nil, amqp.Table{HeaderFirstSeen: int64(5)}},
		"none":           {20, nil, amqp.Table{}},
	} {
		headers := maps.Clone(own)
		maps.Copy(headers, tc.foreign)
		if got := fitting(headers, tc.room); fmt.Sprint(got) != fmt.Sprint(tc.gets) {
			t.Errorf("%s: %v, want %v", name, got, tc.gets)
		}
		if len(headers) != len(own)+len(tc.foreign) {
			t.Errorf("%s: the message's own headers became %v", name, headers)
		}
	}
}

// The size of headers is never told as less than it is in a frame.
//
// Promise(partitions/full-headers)
func TestTableSize(t *testing.T) {
	field := rapid.OneOf(rapid.Just[any](int64(1)), rapid.Just[any](true), rapid.Just[any](nil), rapid.Just[any](amqp.Decimal{}),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) any { return b }),
		rapid.Map(rapid.SliceOf(rapid.Float64()), func(all []float64) any {
			items := make([]any, len(all))
			for i, f := range all {
				items[i] = amqp.Table{"f": f}
			}
			return items
		}))
	rapid.Check(t, func(t *rapid.T) {
		headers := amqp.Table(rapid.MapOf(rapid.StringN(0, 20, 60), field).Draw(t, "headers"))
		if size, told := wireSize(headers), tableSize(headers); told < size {
			t.Fatalf("%d bytes, told as %d", size, told)
		}
	})
}

// wireSize returns the size of a field's value in a frame, with its type.
func wireSize(value any) (n int) {
	switch v := value.(type) {
	case nil:
		return 1
	case bool:
		return 2
	case int64, float64:
		return 9
	case amqp.Decimal:
		return 6
	case string:
		return 5 + len(v)
	case []byte:
		return 5 + len(v)
	case []any:
		for _, item := range v {
			n += wireSize(item)
		}
	case amqp.Table:
		for name, field := range v {
			n += 1 + len(name) + wireSize(field)
		}
	}
	return n + 5
}
