package stream

import (
	"math"

	"keyfold/engine"
)

// Formats of AMQP 1.0 values.
const (
	described  = 0x00
	null       = 0x40
	yes        = 0x41
	no         = 0x42
	boolean    = 0x56
	ubyte      = 0x50
	ushort     = 0x60
	smallUint  = 0x52
	uint0      = 0x43
	uint32s    = 0x70
	smallUlong = 0x53
	ulong0     = 0x44
	ulong      = 0x80
	int8s      = 0x51
	int16s     = 0x61
	smallInt   = 0x54
	int32s     = 0x71
	smallLong  = 0x55
	long       = 0x81
	float      = 0x72
	double     = 0x82
	timestamp  = 0x83
	binary8    = 0xa0
	binary32   = 0xb0
	string8    = 0xa1
	string32   = 0xb1
	symbol8    = 0xa3
	symbol32   = 0xb3
	list8      = 0xc0
	list32     = 0xd0
	map8       = 0xc1
	map32      = 0xd1
)

// widths are how many bytes a value has, by the upper half of its format. Those above have
// their width in front.
var widths = [...]int{4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}

// value reads a value and returns its format and its bytes, in place: of a map or a list
// what stands behind its size. A described value is read as what it describes.
func (c *cursor) value() (format byte, content []byte) {
	format = c.u8()
	if format == described {
		if descriptor, _ := c.plain(c.u8()); descriptor == described {
			c.short = true
		}
		format = c.u8()
	}
	return c.plain(format)
}

// plain reads the bytes of a value that is not described.
func (c *cursor) plain(format byte) (byte, []byte) {
	switch class := int(format >> 4); {
	case class >= 4 && class < len(widths):
		return format, c.take(widths[class])
	case class == 0xa || class == 0xc || class == 0xe:
		return format, c.take(int(c.u8()))
	case class == 0xb || class == 0xd || class == 0xf:
		return format, c.take(int(c.u32()))
	default:
		c.short = true
		return format, nil
	}
}

// native returns a value as Go has it, and whether it is of a type that headers have.
func native(format byte, content []byte) (value any, known bool) {
	r := cursor{rest: content}
	switch format {
	case null:
		return nil, true
	case yes, no:
		return format == yes, true
	case boolean:
		return r.u8() != 0, true
	case float:
		return float64(math.Float32frombits(r.u32())), true
	case double:
		return math.Float64frombits(r.u64()), true
	case timestamp:
		return engine.Millis(r.u64()).Time(), true
	case string8, string32, symbol8, symbol32:
		return string(content), true
	case binary8, binary32:
		return append([]byte{}, content...), true
	default:
		return integer(format, &r)
	}
}

func integer(format byte, r *cursor) (value any, known bool) {
	switch format {
	case uint0, ulong0:
		return int64(0), true
	case ubyte, smallUint, smallUlong:
		return int64(r.u8()), true
	case ushort:
		return int64(r.u16()), true
	case uint32s:
		return int64(r.u32()), true
	case ulong:
		n := r.u64()
		return int64(n), n <= math.MaxInt64
	case int8s, smallInt, smallLong:
		return int64(int8(r.u8())), true
	case int16s:
		return int64(int16(r.u16())), true
	case int32s:
		return int64(int32(r.u32())), true
	case long:
		return int64(r.u64()), true
	default:
		return nil, false
	}
}
