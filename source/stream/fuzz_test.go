package stream

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"keyfold/source/rabbit"
)

// Nothing that is sent panics, or takes more memory than it has.
//
// Promise(rabbitmq/stream-bounds): What comes by the stream protocol is checked: no frame, chunk or message makes the client panic or allocate without bound.
func FuzzChunk(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
		f.Add(b[chunkHead:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseChunk("s", b)
		if err != nil { // read it as one with a right CRC, or few of them would be read
			c = Chunk{First: 1, Records: uint32(len(b)), entries: uint16(len(b)), data: b}
		}
		last := c.First
		if err := c.Each(func(offset uint64, m Message) error {
			if offset != last {
				t.Fatalf("offset %d comes after %d", offset, last-1)
			}
			last++
			readMessage(t, m)
			return nil
		}); err == nil && last != c.Next() && c.entries > 0 {
			t.Fatalf("the last offset is %d, want %d", last-1, c.Next()-1)
		}
	})
}

// seeds are the samples, and chunks that RabbitMQ 3.10.8 and 4.0.5 have sent: testdata has
// them from messages of AMQP 0.9.1, and from this package's.
func seeds(t testing.TB) (all [][]byte) {
	for _, b := range samples() {
		all = append(all, b)
	}
	files, err := filepath.Glob("testdata/*.chunk")
	if err != nil || len(files) != 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// chunkHead is the size of a chunk's head.
const chunkHead = 48

func readMessage(t *testing.T, m Message) {
	body, err := m.Body()
	if err == nil && len(body) > len(m.raw) {
		t.Fatalf("%d bytes of %d", len(body), len(m.raw))
	}
	headers, err := m.Headers()
	if err == nil && len(headers) > len(m.raw) {
		t.Fatalf("%d headers of %d bytes", len(headers), len(m.raw))
	}
}

// Promise(rabbitmq/stream-bounds)
func FuzzMessage(f *testing.F) {
	for _, b := range seeds(f) {
		c, err := parseChunk("s", b)
		if err != nil {
			f.Fatal(err)
		}
		if err := c.Each(func(_ uint64, m Message) error { f.Add(m.raw); return nil }); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) { readMessage(t, Message{raw: raw}) })
}

// Promise(rabbitmq/stream-bounds)
func FuzzFrame(f *testing.F) {
	chunk := samples()["entries"]
	f.Add(deliver, append([]byte{0}, chunk...))
	f.Add(publishConfirm, []byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9})
	f.Add(publishError, []byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2})
	f.Add(metadataUpdate, []byte{0, 6, 0, 1, 's'})
	f.Add(tune, []byte{0, 16, 0, 0, 0, 0, 0, 60})
	f.Add(credit|response, []byte{0, 4, 0})
	f.Add(metadata|response, []byte("\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x04host\x00\x00\x15\xb0\x00\x00\x00\x01\x00\x01s\x00\x01\x00\x00\x00\x00\x00\x01\x00\x00"))
	f.Add(streamStats|response, []byte("\x00\x00\x00\x01\x00\x01\x00\x00\x00\x01\x00\x01k\x00\x00\x00\x00\x00\x00\x00\x09"))
	f.Fuzz(func(_ *testing.T, key uint16, body []byte) {
		if key == closing {
			return // it writes
		}
		c := newConn(nil, rabbit.Timing{}, defaultFrameMax)
		s := &Subscription{conn: c, stream: "s", chunks: newHandover[Chunk](), granted: 1}
		s.ctx, s.end = ending()
		p := &Publisher{conn: c, stream: "s", outcomes: newHandover[Outcome]()}
		p.ctx, p.end = ending()
		c.subscriptions[0], c.publishers[0] = s, p
		_, answered, _ := c.wait()
		_ = c.take(key, body)
		select {
		case answer := <-answered:
			_, _ = read(key&^response, answer)
			for _, r := range []*cursor{{rest: answer}, {rest: answer}, {rest: answer}} {
				r.metadata()
				r.pairs()
			}
		default:
		}
	})
}

func ending() (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(context.Background())
}
