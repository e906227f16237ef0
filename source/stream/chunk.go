package stream

import (
	"fmt"
	"hash/crc32"

	"keyfold/engine"
)

// Chunk is what a stream stored together: messages with offsets in a row.
type Chunk struct {
	Stream    string
	First     uint64        // the first offset
	Timestamp engine.Millis // when the broker stored it
	CRC       uint32        // of its content: IEEE, verified
	Records   uint32        // how many offsets it takes

	entries uint16 // 0 where the chunk holds what is the broker's own
	data    []byte
	frame   []byte // the memory that data lies in
}

// Free gives the chunk's memory back, for another chunk that comes. Nothing may be used after
// that of what [Chunk.Each] brought, unless it was cloned.
func (c *Chunk) Free() {
	if frame := c.frame; cap(frame) > smallFrame {
		frames.Put(&frame)
	}
	c.entries, c.data, c.frame = 0, nil, nil
}

// Next returns the offset behind the chunk's last one.
func (c *Chunk) Next() uint64 { return c.First + uint64(c.Records) }

// Size returns how many bytes the chunk's content holds in memory.
func (c *Chunk) Size() int { return len(c.data) }

// Bytes of a chunk's head.
const (
	magic      = 0x50 // form 5, version 0
	userChunk  = 0    // others hold stored offsets and publishing ids
	chunkUnuse = 4    // reserved
)

// parseChunk reads a chunk and verifies its CRC. Its data is that of b.
func parseChunk(stream string, b []byte) (Chunk, error) {
	r := cursor{rest: b}
	form, kind := r.u8(), r.u8()
	c := Chunk{Stream: stream, entries: r.u16(), Records: r.u32(), Timestamp: engine.Millis(r.u64())}
	r.u64() // the leader's epoch
	c.First, c.CRC = r.u64(), r.u32()
	size := int(r.u32())
	r.u32() // the size of what follows the data, which is not sent
	r.take(chunkUnuse)
	c.data = r.take(size)
	switch {
	case r.short:
		return c, fmt.Errorf("stream %q: the chunk at offset %d is shorter than it says", stream, c.First)
	case form != magic:
		return c, fmt.Errorf("stream %q: the chunk at offset %d has an unknown form (%#02x)", stream, c.First, form)
	case crc32.ChecksumIEEE(c.data) != c.CRC:
		return c, fmt.Errorf("stream %q: the chunk at offset %d is broken: its CRC is wrong", stream, c.First)
	case kind != userChunk:
		c.entries, c.data = 0, nil
	}
	return c, nil
}

// NewChunk makes a chunk of encoded messages (see [AppendMessage]), as a broker would: for
// sources that are none, and for tests.
func NewChunk(stream string, first uint64, at engine.Millis, messages ...[]byte) Chunk {
	c := Chunk{Stream: stream, First: first, Timestamp: at, Records: uint32(len(messages)), entries: uint16(len(messages))}
	size := 0
	for _, m := range messages {
		size += 4 + len(m)
	}
	c.data = make([]byte, 0, size)
	for _, m := range messages {
		c.data = append(order.AppendUint32(c.data, uint32(len(m))), m...)
	}
	c.CRC = crc32.ChecksumIEEE(c.data)
	return c
}

// An entry is a message behind its size, whose first bit is 0; or a sub-entry.
const (
	subEntry         = 0x80
	compressionShift = 4
	compressionMask  = 7
)

// Each calls f with the messages and their offsets, in order, until f returns an error,
// which it returns. A message is read in place: it holds on to the chunk's memory. A chunk
// of the broker's own has none.
func (c *Chunk) Each(f func(offset uint64, message Message) error) error {
	if c.entries == 0 {
		return nil
	}
	r, at := cursor{rest: c.data}, c.First
	for range c.entries {
		var err error
		if len(r.rest) > 0 && r.rest[0]&subEntry != 0 {
			at, err = c.eachOf(&r, at, f)
		} else {
			at, err = c.one(&r, at, f)
		}
		if err != nil {
			return err
		}
	}
	if at != c.Next() {
		return c.malformed(at, "it holds fewer messages than it says")
	}
	return nil
}

// one reads a message behind its size.
func (c *Chunk) one(r *cursor, at uint64, f func(uint64, Message) error) (next uint64, err error) {
	message := r.take(int(r.u32()))
	if r.short {
		return at, c.malformed(at, "a message is longer than what is left")
	}
	if at >= c.Next() {
		return at, c.malformed(at, "it holds more messages than it says")
	}
	return at + 1, f(at, Message{raw: message})
}

// eachOf reads a sub-entry.
func (c *Chunk) eachOf(r *cursor, at uint64, f func(uint64, Message) error) (next uint64, err error) {
	kind, count := r.u8()>>compressionShift&compressionMask, r.u16()
	size := r.u32()
	content := r.take(int(r.u32()))
	if r.short {
		return at, c.malformed(at, "a sub-entry is longer than what is left")
	}
	if kind != uncompressed {
		if content, err = uncompress(kind, content, size); err != nil {
			return at, c.malformed(at, err.Error())
		}
	}
	in := cursor{rest: content}
	for range count {
		if at, err = c.one(&in, at, f); err != nil {
			return at, err
		}
	}
	return at, nil
}

func (c *Chunk) malformed(at uint64, how string) error {
	return fmt.Errorf("rabbitmq stream: stream %q: the chunk at offset %d cannot be read at offset %d: %s", c.Stream, c.First, at, how)
}
