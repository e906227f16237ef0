package stream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/source/rabbit"
)

// ErrClosed is how a connection has ended that [Conn.Close] closed, and a subscription or a
// publisher that its caller ended.
var ErrClosed = errors.New("rabbitmq stream: closed")

// Conn is a connection to one node. Its methods may be called from several goroutines. A
// call whose context ends before the broker's answer ends the connection, because what the
// broker did is not known.
type Conn struct {
	socket   net.Conn
	reader   *bufio.Reader // of the goroutine that reads
	timing   rabbit.Timing
	silence  atomic.Int64   // how long the broker may be silent; 0: for ever
	tuned    chan tuning    // what the broker proposes, once
	done     chan struct{}  // closed when the connection has ended
	working  sync.WaitGroup // all goroutines
	writing  sync.Mutex     // held for one frame
	lastSent atomic.Int64   // when a frame was sent last, Unix nanoseconds

	// Set by the handshake.
	properties, opened map[string]string // the broker's properties; those of the virtual host
	frameMax           int               // of frames that are sent
	heartbeat          time.Duration

	leaving atomic.Bool // the caller closes it: the broker then does, too

	mu            sync.Mutex // guards the fields below
	correlation   uint32
	waiting       map[uint32]chan []byte // for answers
	subscriptions map[byte]*Subscription
	publishers    map[byte]*Publisher
	ended         error
}

// Properties are what the broker told of itself, such as its version.
func (c *Conn) Properties() map[string]string { return maps.Clone(c.properties) }

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended, nil before.
func (c *Conn) Err() error {
	if err := c.cause(); err != nil && !errors.Is(err, ErrClosed) {
		return fault("connection", err)
	}
	return c.cause()
}

func (c *Conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// Close ends the connection in order, by force when ctx ends, and waits for the handlers
// that run: none of them may call it.
func (c *Conn) Close(ctx context.Context) {
	c.leaving.Store(true)
	if !rabbit.IsClosed(c.done) {
		// What is lost by an unclean end is the broker's to take back.
		_, _ = c.call(ctx, closing, appendString(order.AppendUint16(nil, uint16(ok)), "OK"))
	}
	c.end(ErrClosed)
	c.working.Wait()
}

// end ends the connection, its subscriptions and its publishers. The first reason counts.
func (c *Conn) end(reason error) {
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		return
	}
	if c.ended = reason; c.leaving.Load() {
		c.ended = ErrClosed
	}
	subscriptions, publishers := slices.Collect(maps.Values(c.subscriptions)), slices.Collect(maps.Values(c.publishers))
	close(c.done)
	c.mu.Unlock()
	c.socket.Close()
	for _, s := range subscriptions {
		s.end(c.Err())
	}
	for _, p := range publishers {
		p.end(c.Err())
	}
}

// read takes frames until the connection ends.
func (c *Conn) read() {
	for {
		key, body, err := c.readFrame()
		if err == nil {
			err = c.take(key, body)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("the broker was silent for %v, two heartbeats: %w", time.Duration(c.silence.Load()), err)
		}
		if err != nil {
			c.end(err)
			return
		}
	}
}

// beat sends a heartbeat where nothing else was sent.
func (c *Conn) beat() {
	if c.heartbeat == 0 {
		return
	}
	tick := time.NewTicker(c.heartbeat / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if time.Since(time.Unix(0, c.lastSent.Load())) < c.heartbeat/2 {
				continue
			}
			if err := c.send(heartbeat, nil); err != nil {
				return
			}
		case <-c.done:
			return
		}
	}
}
