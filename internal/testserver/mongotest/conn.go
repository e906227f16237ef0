package mongotest

import (
	"bufio"
	"context"
	"net"
	"sync/atomic"

	"github.com/xdg-go/scram"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"
)

// conn is one client connection. Its requests are served one after the other,
// in the goroutine that owns everything here but close.
type conn struct {
	server *Server
	socket net.Conn
	id     int64
	ctx    context.Context
	cancel context.CancelFunc
	// private: the connection is a [Remote]'s, which gives faults rather than
	// suffering them.
	private atomic.Bool
	appName string // of its client, as the first hello says

	in, out       []byte
	conversation  *scram.ServerConversation
	authenticated bool
}

func newConn(s *Server, socket net.Conn, id int64) *conn {
	c := &conn{server: s, socket: socket, id: id}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	return c
}

// close ends the connection, from any goroutine.
func (c *conn) close() {
	c.cancel()
	_ = c.socket.Close()
}

func (c *conn) run() {
	defer c.close()
	in := bufio.NewReaderSize(c.socket, 64<<10)
	for {
		var m message
		var err error
		if m, c.in, err = readMessage(in, c.in); err != nil {
			return
		}
		r := newRequest(c, &m)
		if !r.passes() {
			return
		}
		if !c.handle(r) {
			return
		}
	}
}

// handle serves one request and reports whether the connection goes on.
func (c *conn) handle(r *request) bool {
	c.server.store.counters.command(r.name)
	x := c.server.store.faults.activeFor(r)
	if !pause(c.ctx, x.delay) {
		return false
	}
	if x.close {
		reset(c.socket)
		return false
	}
	if !r.awaitNews() || !r.passes() {
		return false
	}
	r.reply.begin(c.out, r.message)
	c.server.execute(r, x)
	c.out = r.reply.buf
	if r.message.flags&wiremessage.MoreToCome != 0 {
		return true // the client does not want to know
	}
	return c.send(r, x.reply)
}

// send writes the reply, or does with it what a fault wants.
func (c *conn) send(r *request, fate Reply) bool {
	if !r.passes() {
		return false
	}
	c.out = r.reply.finish()
	switch fate {
	case LoseReply:
		reset(c.socket)
		return false
	case SwallowReply:
		return true
	case CutReply:
		_, _ = c.socket.Write(c.out[:len(c.out)/2])
		_ = c.socket.Close()
		return false
	}
	_, err := c.socket.Write(c.out)
	return err == nil
}

// passes waits while the server is paused, which orders to it do not. It reports
// whether the connection goes on.
func (r *request) passes() bool { return r.conn.private.Load() || r.server.paused.pass(r.conn.ctx) }
