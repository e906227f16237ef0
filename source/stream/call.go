package stream

import (
	"context"
	"errors"
	"fmt"
)

// errShort: an answer ended before it should.
var errShort = errors.New("an answer of the broker is shorter than it says")

// call sends a command and returns its answer, behind the code. A code other than ok is the
// error. Metadata has no code.
func (c *Conn) call(ctx context.Context, key uint16, body []byte) (*cursor, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timing.Connect)
	defer cancel()
	id, answered, err := c.wait()
	if err != nil {
		return nil, err
	}
	if err := c.send(key, append(order.AppendUint32(nil, id), body...)); err != nil {
		return nil, err
	}
	select {
	case answer := <-answered:
		return read(key, answer)
	case <-c.done:
		return c.late(key, answered)
	case <-ctx.Done():
		err := fmt.Errorf("no answer to command %d: %w", key, ctx.Err())
		c.end(err)
		return nil, err
	}
}

// late returns the answer of a connection that has ended: a broker answers a refusal and
// closes the connection.
func (c *Conn) late(key uint16, answered <-chan []byte) (*cursor, error) {
	select {
	case answer := <-answered:
		return read(key, answer)
	default:
		return nil, c.cause()
	}
}

// read reads the code of an answer.
func read(key uint16, answer []byte) (*cursor, error) {
	r := &cursor{rest: answer}
	if key == metadata {
		return r, nil
	}
	code := Code(r.u16())
	if err := r.err(); err != nil {
		return nil, err
	}
	if code != ok {
		return r, code
	}
	return r, nil
}

// wait registers a call.
func (c *Conn) wait() (id uint32, answered chan []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return 0, nil, c.ended
	}
	c.correlation++
	answered = make(chan []byte, 1)
	c.waiting[c.correlation] = answered
	return c.correlation, answered, nil
}

// answer hands an answer to the call that waits for it.
func (c *Conn) answer(body []byte) error {
	r := cursor{rest: body}
	id := r.u32()
	if r.short {
		return errShort
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if answered, found := c.waiting[id]; found {
		delete(c.waiting, id)
		answered <- r.rest
	}
	return nil
}
