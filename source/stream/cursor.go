package stream

import "encoding/binary"

var order = binary.BigEndian

// cursor reads what came from the wire. Beyond the end it gives zeros and is short from
// then on, so that a reader looks once, at its end. It allocates nothing but strings, which
// are as long as what it reads.
type cursor struct {
	rest  []byte
	short bool
}

// err returns [errShort] where something was missing.
func (c *cursor) err() error {
	if c.short {
		return errShort
	}
	return nil
}

// take returns the next n bytes in place, nil where there are fewer.
func (c *cursor) take(n int) []byte {
	if c.short || n < 0 || n > len(c.rest) {
		c.short = true
		return nil
	}
	taken := c.rest[:n:n]
	c.rest = c.rest[n:]
	return taken
}

func (c *cursor) u8() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return order.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return order.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return order.Uint64(b)
	}
	return 0
}

// noString is the length of a string that is not there.
const noString = 1<<16 - 1

func (c *cursor) string() string {
	if n := c.u16(); n != noString {
		return string(c.take(int(n)))
	}
	return ""
}

// count reads the length of an array whose elements take at least size bytes each.
func (c *cursor) count(size int) int {
	n := int64(c.u32())
	if n*int64(size) > int64(len(c.rest)) {
		c.short = true
		return 0
	}
	return int(n)
}

// pairs reads an array of names and values.
func (c *cursor) pairs() map[string]string {
	all := map[string]string{}
	for range c.count(4) {
		name := c.string()
		all[name] = c.string()
	}
	return all
}

func appendString(b []byte, s string) []byte {
	return append(order.AppendUint16(b, uint16(len(s))), s...)
}

func appendPairs(b []byte, all map[string]string) []byte {
	b = order.AppendUint32(b, uint32(len(all)))
	for name, value := range all {
		b = appendString(appendString(b, name), value)
	}
	return b
}
