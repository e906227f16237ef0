package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"keyfold/source/rabbit"
)

// Publishing says what a publisher is.
type Publishing struct {
	Stream string
	// Reference is the name under which the broker keeps the highest publishing id: it drops
	// messages of this name with an id that is not higher, and confirms them. At most 255
	// bytes. "" has it keep none.
	Reference string
	// Handle takes confirms and refusals one after the other, on the publisher's goroutine.
	Handle func(Outcome)
}

// Outcome is what became of published messages.
type Outcome struct {
	IDs []uint64 // publishing ids. A sub-entry has its last message's
	Err error    // nil: confirmed
}

// Publisher sends messages to one stream. Its methods may be called from several
// goroutines, and from its handler.
type Publisher struct {
	conn     *Conn
	id       byte
	stream   string
	outcomes handover[Outcome]
	ctx      context.Context // its cause is why the publisher has ended
	end      context.CancelCauseFunc
	done     chan struct{}

	mu     sync.Mutex // held for one Publish
	buffer []byte     // the frame
}

// maxReference is the length of a reference, in bytes.
const maxReference = 255

var errReference = errors.New("a publisher's reference has at most 255 bytes")

// DeclarePublisher makes a publisher. The connection must be one to the stream's leader,
// see [DialLeader].
func (c *Conn) DeclarePublisher(ctx context.Context, publishing Publishing) (*Publisher, error) {
	doing := fmt.Sprintf("declare a publisher of stream %q", publishing.Stream)
	if len(publishing.Reference) > maxReference {
		return nil, fault(doing, errReference)
	}
	p := &Publisher{conn: c, stream: publishing.Stream, outcomes: newHandover[Outcome](), done: make(chan struct{})}
	p.ctx, p.end = context.WithCancelCause(context.Background())
	if err := c.addPublisher(p, publishing.Handle); err != nil {
		return nil, fault(doing, err)
	}
	body := appendString(appendString([]byte{p.id}, publishing.Reference), p.stream)
	if _, err := c.call(ctx, declarePublisher, body); err != nil {
		c.forgetPublisher(p)
		p.end(err)
		return nil, fault(doing, err)
	}
	return p, nil
}

// run hands outcomes over, and at the end those that have come.
func (p *Publisher) run(handle func(Outcome)) {
	defer close(p.done)
	p.outcomes.run(p.ctx, func(o Outcome) bool {
		handle(o)
		return true
	})
	for _, o := range p.outcomes.all() {
		handle(o)
	}
}

// Delete ends the publisher. What it sent and has no outcome is unknown.
func (p *Publisher) Delete(ctx context.Context) error {
	if rabbit.IsClosed(p.ctx.Done()) {
		return nil
	}
	_, err := p.conn.call(ctx, deletePublisher, []byte{p.id})
	p.conn.forgetPublisher(p)
	p.end(ErrClosed)
	if err != nil {
		return fault(fmt.Sprintf("delete a publisher of stream %q", p.stream), err)
	}
	return nil
}

// Done is closed when the publisher has ended and its handler has taken all outcomes.
func (p *Publisher) Done() <-chan struct{} { return p.done }

// Err returns why the publisher has ended, nil before.
func (p *Publisher) Err() error { return context.Cause(p.ctx) }

func (c *Conn) addPublisher(p *Publisher, handle func(Outcome)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := freeID(c, c.publishers)
	if err == nil {
		p.id, c.publishers[id] = id, p
		c.working.Go(func() { p.run(handle) })
	}
	return err
}

func (c *Conn) publisher(id byte) *Publisher {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.publishers[id]
}

func (c *Conn) forgetPublisher(p *Publisher) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.publishers[p.id] == p {
		delete(c.publishers, p.id)
	}
}

// QueryPublisherSequence returns the highest publishing id that a stream holds of a
// reference, 0 where it has none.
func (c *Conn) QueryPublisherSequence(ctx context.Context, reference, stream string) (uint64, error) {
	answer, err := c.call(ctx, querySequence, appendString(appendString(nil, reference), stream))
	var sequence uint64
	if err == nil {
		sequence = answer.u64()
		err = answer.err()
	}
	if err != nil {
		return 0, fault(fmt.Sprintf("ask for the publishing sequence of stream %q", stream), err)
	}
	return sequence, nil
}
