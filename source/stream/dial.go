package stream

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"keyfold/source/rabbit"
)

// Config says how to connect.
type Config struct {
	// URI is rabbitmq-stream://user:password@host:5552/vhost, or rabbitmq-stream+tls://, or
	// an AMQP URL, whose port is replaced by that of streams. TLS and EXTERNAL are set by
	// the parameters that AMQP URLs have (cacertfile, certfile, keyfile,
	// server_name_indication, auth_mechanism).
	URI    string
	Name   string // of the connection
	Timing rabbit.Timing
	// Address returns the address to dial for a node's advertised host and port: where a
	// load balancer or a tunnel stands between. nil: the advertised ones.
	Address func(host string, port int) string
	// FrameMax bounds the frames that are sent, in bytes, where the broker's bound is not
	// lower; default 1 MiB.
	FrameMax int
}

const defaultFrameMax = 1 << 20

// Dial connects to the node of the URL, within the connect timeout, sooner if ctx ends. Its
// errors have their cause (see engine/causes); credentials, rights and TLS are
// configuration faults.
func Dial(ctx context.Context, config Config) (*Conn, error) {
	e, err := parse(config.URI)
	if err != nil {
		return nil, err
	}
	return dial(ctx, config, e, addressOf(e.Host, e.Port))
}

func dial(ctx context.Context, config Config, e rabbit.Endpoint, address string) (*Conn, error) {
	timing := config.Timing.OrDefaults()
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(e.Connect, timing.Connect))
	defer cancel()
	doing := "connect to " + redact(e, address)
	socket, err := connect(ctx, timing, e, address)
	if err != nil {
		return nil, fault(doing, err)
	}
	c := newConn(socket, timing, cmp.Or(config.FrameMax, defaultFrameMax))
	c.working.Go(c.read)
	if err := c.handshake(ctx, e, config.Name); err != nil {
		c.end(err)
		c.working.Wait()
		if e.External {
			err = fmt.Errorf("%w: %w", rabbit.ErrExternal, err)
		}
		return nil, fault(doing, err)
	}
	c.working.Go(c.beat)
	return c, nil
}

// connect opens the socket, with TLS where the URL asks for it.
func connect(ctx context.Context, timing rabbit.Timing, e rabbit.Endpoint, address string) (net.Conn, error) {
	socket, err := timing.Dial(ctx, "tcp", address)
	if err != nil || e.TLS == nil {
		return socket, err
	}
	config := e.TLS.Clone()
	if host, _, err := net.SplitHostPort(address); config.ServerName == "" && err == nil {
		config.ServerName = host
	}
	secured := tls.Client(socket, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		socket.Close()
		return nil, err
	}
	return secured, nil
}

func newConn(socket net.Conn, timing rabbit.Timing, frameMax int) *Conn {
	c := &Conn{
		socket: socket, timing: timing, frameMax: frameMax,
		waiting: map[uint32]chan []byte{}, subscriptions: map[byte]*Subscription{}, publishers: map[byte]*Publisher{},
		tuned: make(chan tuning, 1), done: make(chan struct{}),
	}
	c.reader = bufio.NewReaderSize(heard{c}, readBuffer)
	return c
}

// readBuffer holds a fair part of a chunk: larger reads are fewer system calls.
const readBuffer = 64 << 10

// handshake introduces both sides, gives the credentials, agrees on the limits and opens the
// virtual host.
func (c *Conn) handshake(ctx context.Context, e rabbit.Endpoint, name string) error {
	answer, err := c.call(ctx, peerProperties, appendPairs(nil, map[string]string{"product": "keyfold", "connection_name": name}))
	if err != nil {
		return err
	}
	c.properties = answer.pairs()
	if err := answer.err(); err != nil {
		return err
	}
	if err := c.authenticate(ctx, e); err != nil {
		return err
	}
	if err := c.tune(ctx); err != nil {
		return err
	}
	answer, err = c.call(ctx, open, appendString(nil, e.VHost))
	if err != nil {
		return err
	}
	c.opened = answer.pairs()
	return answer.err()
}

func (c *Conn) authenticate(ctx context.Context, e rabbit.Endpoint) error {
	answer, err := c.call(ctx, saslHandshake, nil)
	if err != nil {
		return err
	}
	var offered []string
	for range answer.count(2) {
		offered = append(offered, answer.string())
	}
	mechanism, secret := "PLAIN", "\x00"+e.User+"\x00"+e.Password
	if e.External {
		mechanism, secret = "EXTERNAL", ""
	}
	if !slices.Contains(offered, mechanism) {
		return fmt.Errorf("%w: %s is not among %s", mechanismNotSupported, mechanism, strings.Join(offered, ", "))
	}
	body := order.AppendUint32(appendString(nil, mechanism), uint32(len(secret)))
	_, err = c.call(ctx, saslAuthenticate, append(body, secret...))
	return err
}

// tuning are the limits of a connection, as they travel: 0 is none.
type tuning struct{ frameMax, heartbeat uint32 }

// tune awaits the broker's limits, and answers with the lower ones of both sides.
func (c *Conn) tune(ctx context.Context) error {
	var t tuning
	select {
	case t = <-c.tuned:
	case <-c.done:
		return c.cause()
	case <-ctx.Done():
		return fmt.Errorf("handshake: %w", ctx.Err())
	}
	t.frameMax = lower(t.frameMax, uint32(min(c.frameMax, math.MaxInt32)))
	t.heartbeat = lower(t.heartbeat, uint32((c.timing.Heartbeat+time.Second-1)/time.Second))
	c.frameMax, c.heartbeat = int(t.frameMax), time.Duration(t.heartbeat)*time.Second
	body := order.AppendUint32(order.AppendUint32(nil, t.frameMax), t.heartbeat)
	if err := c.send(tune|response, body); err != nil {
		return err
	}
	return c.hearWithin(2 * c.heartbeat)
}

// lower returns the lower of two limits, of which 0 is none.
func lower(a, b uint32) uint32 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// heard reads from the socket, and gives up where the broker is silent for too long.
type heard struct{ c *Conn }

func (h heard) Read(b []byte) (int, error) {
	if limit := h.c.silence.Load(); limit > 0 {
		if err := h.c.socket.SetReadDeadline(time.Now().Add(time.Duration(limit))); err != nil {
			return 0, err
		}
	}
	return h.c.socket.Read(b)
}

// hearWithin bounds how long the broker may be silent from now on.
func (c *Conn) hearWithin(limit time.Duration) error {
	c.silence.Store(int64(limit))
	if limit == 0 {
		return nil
	}
	// The goroutine that reads may wait already, without a bound.
	return c.socket.SetReadDeadline(time.Now().Add(limit))
}
