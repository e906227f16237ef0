package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
)

// fake is a broker that answers ok to everything, and sends frames of a test's.
type fake struct {
	t    *testing.T
	conn net.Conn
	done chan struct{}
}

// dialFake connects to a new fake.
func dialFake(t *testing.T) (*Conn, *fake) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	f := &fake{t: t, done: make(chan struct{})}
	accepted := make(chan struct{})
	go func() {
		defer close(f.done)
		f.conn, err = listener.Accept()
		close(accepted)
		if err == nil {
			f.serve()
		}
	}()
	c, err := Dial(sitetest.Within(t, sitetest.Ample), Config{URI: rabbittest.StreamURI(listener.Addr().String(), "/"), Timing: sitetest.Quick})
	if err != nil {
		t.Fatal(err)
	}
	<-accepted
	t.Cleanup(func() {
		c.Close(context.Background())
		f.conn.Close()
		<-f.done
	})
	return c, f
}

func (f *fake) serve() {
	for {
		key, body, err := f.read()
		if err != nil {
			return
		}
		answer := order.AppendUint16(append([]byte{}, body[:min(4, len(body))]...), uint16(ok))
		switch key {
		case peerProperties:
			f.send(key|response, appendPairs(answer, map[string]string{"version": "4.0.5"}))
		case saslHandshake:
			f.send(key|response, appendString(order.AppendUint32(answer, 1), "PLAIN"))
		case saslAuthenticate:
			f.send(key|response, answer)
			f.send(tune, []byte{0, 16, 0, 0, 0, 0, 0, 60})
		case open:
			f.send(key|response, appendPairs(answer, nil))
		case subscribe, unsubscribe, closing:
			f.send(key|response, answer)
		}
	}
}

func (f *fake) read() (key uint16, body []byte, err error) {
	head := make([]byte, 8)
	if _, err := io.ReadFull(f.conn, head); err != nil {
		return 0, nil, err
	}
	body = make([]byte, order.Uint32(head)-headerSize)
	_, err = io.ReadFull(f.conn, body)
	return order.Uint16(head[4:]), body, err
}

func (f *fake) send(key uint16, body []byte) {
	b := order.AppendUint32(nil, uint32(headerSize+len(body)))
	b = order.AppendUint16(order.AppendUint16(b, key), version)
	if _, err := f.conn.Write(append(b, body...)); err != nil {
		f.t.Log(err)
	}
}

// What no broker does ends the connection, and with it the subscription, with an error that
// tells what came.
//
// Promise(rabbitmq/stream-crc)
func TestBrokersThatErr(t *testing.T) {
	good := append([]byte{0}, samples()["entries"]...)
	broken := append([]byte{}, good...)
	broken[len(broken)-1] ^= 1
	for want, send := range map[string]func(*fake){
		`stream "s": the chunk at offset 100 is broken: its CRC is wrong`: func(f *fake) { f.send(deliver, broken) },
		`stream "s": the broker sent a chunk without a credit, at offset 100`: func(f *fake) {
			f.send(deliver, good)
			f.send(deliver, good)
		},
		"the broker closes the connection: maintenance: internal error (code 15)": func(f *fake) {
			f.send(closing, appendString([]byte{0, 0, 0, 1, 0, 15}, "maintenance"))
		},
		`stream "s": credit: the subscription does not exist (code 4)`: func(f *fake) { f.send(credit|response, []byte{0, 4, 0}) },
		"is not of the stream protocol":                                func(f *fake) { io.WriteString(f.conn, "HTTP/1.1 400 Bad Request\r\n") },
		"an answer of the broker is shorter than it says":              func(f *fake) { f.send(publishConfirm, []byte{0, 0, 0, 0, 9}) },
		"unexpected EOF": func(f *fake) {
			f.conn.Write([]byte{0, 255, 255, 255, 0, byte(deliver), 0, 1, 0})
			f.conn.Close()
		},
	} {
		t.Run(want, func(t *testing.T) {
			c, f := dialFake(t)
			s := &site{TB: t, Conn: c}
			in := s.subscribe("s", First, 1)
			f.send(99, []byte("a later version's"))
			send(f)
			if err := in.ended(); !strings.Contains(err.Error(), want) {
				t.Error(err)
			}
		})
	}
}

// A server of another protocol is none.
func TestOtherServers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			conn.Read(make([]byte, 1))
			conn.Close()
		}
	}()
	_, err = Dial(sitetest.Within(t, sitetest.Ample), Config{URI: rabbittest.StreamURI(listener.Addr().String(), "/"), Timing: sitetest.Quick})
	if cause, known := errors.AsType[*causes.Error](err); !known || cause.ID != causes.Lost || engine.KindOf(err) != engine.Transient {
		t.Error(err)
	}
}

// A subscription is gone for the connection when the broker has forgotten it.
func TestManySubscriptions(t *testing.T) {
	c, _ := dialFake(t)
	s := &site{TB: t, Conn: c}
	var last *inbox
	for range maxEntities {
		last = s.subscribe("s", First, 1)
	}
	if _, err := c.Subscribe(s.ctx(), Consume{Stream: "s", From: First}); !errors.Is(err, errTooMany) {
		t.Error(err)
	}
	s.check(last.Unsubscribe(s.ctx()))
	if in := s.subscribe("s", First, 1); in.id != last.id {
		t.Errorf("id %d, want that which was given back, %d", in.id, last.id)
	}
	if err := last.Credit(1); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
