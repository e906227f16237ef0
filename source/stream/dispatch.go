package stream

import (
	"fmt"
)

// take does what a frame asks for. An error ends the connection.
func (c *Conn) take(key uint16, body []byte) error {
	switch r := (&cursor{rest: body}); key {
	case deliver:
		return c.takeChunk(body)
	case publishConfirm:
		return c.takeConfirms(r)
	case publishError:
		return c.takeRefusals(r)
	case metadataUpdate:
		return c.takeUpdate(r)
	case credit | response:
		return c.takeCreditRefused(r)
	case tune:
		return c.takeTune(r)
	case closing:
		return c.takeClose(r)
	default:
		if key&response != 0 {
			return c.answer(body)
		}
		return nil // a heartbeat, or what a later version tells
	}
}

func (c *Conn) takeTune(r *cursor) error {
	t := tuning{frameMax: r.u32(), heartbeat: r.u32()}
	if r.short {
		return errShort
	}
	select {
	case c.tuned <- t:
	default:
	}
	return nil
}

// takeClose answers the broker's wish to end the connection, and is the connection's end.
func (c *Conn) takeClose(r *cursor) error {
	id, code, reason := r.u32(), r.u16(), r.string()
	_ = c.send(closing|response, order.AppendUint16(order.AppendUint32(nil, id), uint16(ok)))
	return fmt.Errorf("the broker closes the connection: %s: %w", reason, Code(code))
}

func (c *Conn) takeChunk(body []byte) error {
	r := &cursor{rest: body}
	s := c.subscription(r.u8())
	if s == nil || s.over() {
		return nil // on its way while the subscription ended
	}
	chunk, err := parseChunk(s.stream, r.rest)
	if err != nil {
		return err
	}
	chunk.frame = body // as it was allocated, for the next one
	if !s.spend() {
		return fmt.Errorf("stream %q: the broker sent a chunk without a credit, at offset %d", s.stream, chunk.First)
	}
	s.chunks.put(chunk)
	return nil
}

// takeCreditRefused ends a subscription that the broker does not know.
func (c *Conn) takeCreditRefused(r *cursor) error {
	code, id := Code(r.u16()), r.u8()
	if r.short {
		return errShort
	}
	if s := c.subscription(id); s != nil && !s.over() {
		c.forget(s)
		s.end(fault(fmt.Sprintf("stream %q: credit", s.stream), code))
	}
	return nil
}

// takeUpdate ends what a stream had that is not there any more: the broker has forgotten
// its subscriptions and publishers.
func (c *Conn) takeUpdate(r *cursor) error {
	code, stream := Code(r.u16()), r.string()
	if r.short {
		return errShort
	}
	reason := fault(fmt.Sprintf("stream %q", stream), code)
	for _, end := range c.forgetStream(stream) {
		end(reason)
	}
	return nil
}

// forgetStream returns the ends of what a stream had.
func (c *Conn) forgetStream(stream string) (ends []func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.subscriptions {
		if s.stream == stream {
			delete(c.subscriptions, id)
			ends = append(ends, s.end)
		}
	}
	for id, p := range c.publishers {
		if p.stream == stream {
			delete(c.publishers, id)
			ends = append(ends, p.end)
		}
	}
	return ends
}

func (c *Conn) takeConfirms(r *cursor) error {
	p := c.publisher(r.u8())
	n := r.count(8)
	if r.short {
		return errShort
	}
	if p == nil {
		return nil
	}
	ids := make([]uint64, n)
	for i := range ids {
		ids[i] = r.u64()
	}
	p.outcomes.put(Outcome{IDs: ids})
	return nil
}

func (c *Conn) takeRefusals(r *cursor) error {
	p := c.publisher(r.u8())
	for range r.count(10) {
		id, code := r.u64(), Code(r.u16())
		if p != nil {
			p.outcomes.put(Outcome{IDs: []uint64{id}, Err: fault(fmt.Sprintf("publish to stream %q", p.stream), code)})
		}
	}
	if r.short {
		return errShort
	}
	return nil
}
