package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/internal/testserver/sitetest"
)

// What is published is read, as messages and in sub-entries.
//
// Promise(rabbitmq/stream-entries): Messages of a stream are read with their offsets, alone and in sub-entries.
func TestPublishAndRead(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(nil)
		p := s.publisher(name, "")
		s.check(p.Publish(s.numbered(0, 1000)))
		p.await(999)
		s.check(p.PublishSubEntries(s.numbered(1000, 1000)))
		p.await(1999)
		got := s.subscribe(name, First, 2).read(2000)
		for i := range 2000 {
			if got[uint64(i)] != fmt.Sprintf("body %d", i) {
				s.Fatalf("offset %d has %q", i, got[uint64(i)])
			}
		}
	})
}

// Messages that come by AMQP 0.9.1 have their bodies and headers.
//
// Promise(rabbitmq/stream-amqp): Messages that were published into a stream by AMQP 0.9.1 are read with body and headers.
func TestPublishedByAMQP(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(nil)
		conn, err := amqp.Dial(s.broker.DSN(s.vhost))
		s.check(err)
		defer conn.Close()
		ch, err := conn.Channel()
		s.check(err)
		s.check(ch.Confirm(false))
		at := time.UnixMilli(1_700_000_000_000).UTC()
		headers := amqp.Table{
			"keyfold-first-seen": int64(1_700_000_000_123), "keyfold-attempts": int32(3), "keyfold-failures": "a long text " + strings.Repeat("x", 500),
			"keyfold-at": at, "flag": true, "ratio": 0.5,
		}
		for _, body := range []string{"{}", "", strings.Repeat("y", 100_000)} {
			confirm, err := ch.PublishWithDeferredConfirmWithContext(s.ctx(), "", name, false, false, amqp.Publishing{
				Headers: headers, ContentType: "application/json", MessageId: "id", Timestamp: at, DeliveryMode: amqp.Persistent, Priority: 5,
				AppId: "keyfold", Body: []byte(body),
			})
			s.check(err)
			// A subscription at the last chunk that begins while the first is stored may miss it.
			_, err = confirm.WaitContext(s.ctx())
			s.check(err)
			c := s.subscribe(name, Last, 1).await(s, body)
			if c["keyfold-first-seen"] != int64(1_700_000_000_123) || c["keyfold-attempts"] != int64(3) || c["flag"] != true || c["ratio"] != 0.5 ||
				c["keyfold-failures"] != headers["keyfold-failures"] {
				s.Errorf("%d bytes: %v", len(body), c)
			}
			if got, _ := c["keyfold-at"].(time.Time); !got.Equal(at) {
				s.Errorf("a time: %v", c["keyfold-at"])
			}
		}
	})
}

// await returns the headers of the first message with a body, and ends the subscription.
func (in *inbox) await(s *site, body string) (headers map[string]any) {
	s.Helper()
	found := false
	for !found {
		c := in.next()
		s.check(in.Credit(1))
		s.check(c.Each(func(_ uint64, m Message) (err error) {
			if b, err := m.Body(); err != nil || string(b) != body {
				return err
			}
			found = true
			headers, err = m.Headers()
			return err
		}))
	}
	s.check(in.Unsubscribe(s.ctx()))
	return headers
}

// Each stored offset takes an offset of the stream, which no message has.
//
// Promise(rabbitmq/stream-gaps): Offsets of a stream have gaps, and a subscription beyond its end is served with lower offsets.
func TestStoredOffsetsLeaveGaps(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(nil)
		if _, found, err := s.QueryOffset(s.ctx(), "keyfold", name); found || err != nil {
			s.Errorf("an offset before any was stored: %v, %v", found, err)
		}
		s.put(name, 0, 5)
		for _, offset := range []uint64{1, 4, 2} {
			s.check(s.StoreOffset("keyfold", name, offset))
			sitetest.Eventually(s, "the stored offset", func() bool {
				got, found, err := s.QueryOffset(s.ctx(), "keyfold", name)
				s.check(err)
				return found && got == offset // also the lower one
			})
		}
		in := s.subscribe(name, At(1000), 10)
		s.put(name, 5, 1)
		if c := in.next(); c.First != 8 || c.Records != 1 {
			s.Errorf("a subscription beyond the end brings the chunk at %d with %d", c.First, c.Records)
		}
		got := s.subscribe(name, First, 10).read(6)
		if got[4] != "body 4" || got[8] != "body 5" {
			s.Errorf("%v", got)
		}
	})
}

// A subscription brings whole chunks, and begins at the first that is left.
//
// Promise(rabbitmq/stream-truncated): A subscription below a stream's first offset begins at the first that retention left.
func TestOffsets(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(nil)
		var times []engine.Millis
		for i := range 3 {
			s.put(name, 10*i, 10)
			time.Sleep(5 * time.Millisecond) // chunks of one millisecond cannot be told by time
			times = append(times, engine.MillisOf(time.Now()))
		}
		first := s.subscribe(name, First, 100).next()
		if first.First != 0 || first.Timestamp > times[0] || first.Timestamp < times[0]-engine.Millis(sitetest.Ample.Milliseconds()) {
			s.Errorf("the first chunk: %d at %d, want 0 at %d", first.First, first.Timestamp, times[0])
		}
		middle := s.subscribe(name, At(13), 100).next()
		if middle.First > 13 || middle.Next() <= 13 {
			s.Errorf("offset 13 is not in the chunk from %d to %d", middle.First, middle.Next())
		}
		if last := s.subscribe(name, Last, 100).next(); last.Next() != 30 {
			s.Errorf("the last chunk ends at %d", last.Next())
		}
		if since := s.subscribe(name, Since(times[1]), 100).next(); since.Next() <= 20 {
			s.Errorf("since the third: the chunk from %d to %d", since.First, since.Next())
		}
		next := s.subscribe(name, Next, 100)
		s.put(name, 30, 1)
		if c := next.next(); c.First != 30 {
			s.Errorf("what is next: %d", c.First)
		}
	})
}

// Promise(rabbitmq/stream-truncated)
func TestTruncatedStream(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(map[string]string{"max-length-bytes": "200000", "stream-max-segment-size-bytes": "50000"})
		// RabbitMQ 3.10 that deletes a stream while it still has segments of it to remove
		// starts all streams of the node anew.
		s.Cleanup(func() {
			_, err := s.broker.Eval("sys:get_state(osiris_retention), ok.")
			s.check(err)
		})
		p := s.publisher(name, "")
		body, err := AppendMessage(nil, make([]byte, 1000), nil)
		s.check(err)
		for i := range uint64(20) {
			var batch []Numbered
			for j := range uint64(50) {
				batch = append(batch, Numbered{ID: 50*i + j, Message: body})
			}
			s.check(p.Publish(batch))
			p.await(50*i + 49)
		}
		sitetest.Eventually(s, "retention", func() bool {
			in := s.subscribe(name, At(5), 1)
			first := in.next().First
			s.check(in.Unsubscribe(s.ctx()))
			return first > 5
		})
	})
}

// A deleted stream ends what was open on it, by name, and the connection lives on.
//
// Promise(rabbitmq/stream-deleted): The end of a stream ends its subscriptions and publishers with an error that names it.
func TestDeletedStream(t *testing.T) {
	onSite(t, func(s *site) {
		name, other := s.create(nil), s.create(nil)
		in, kept, p := s.subscribe(name, Next, 1), s.subscribe(other, Next, 1), s.publisher(name, "")
		s.check(s.Delete(s.ctx(), name))
		if err := in.ended(); !errors.Is(err, StreamNotAvailable) || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			s.Error(err)
		}
		<-p.Done()
		if err := p.Publish(s.numbered(0, 1)); !errors.Is(err, StreamNotAvailable) {
			s.Errorf("publish: %v", err)
		}
		_, err := s.Subscribe(s.ctx(), Consume{Stream: name, From: First, Credit: 1})
		if !errors.Is(err, StreamMissing) || engine.ReasonOf(err) != "queue_missing" {
			s.Errorf("subscribe: %v", err)
		}
		s.put(other, 0, 1)
		kept.next()
	})
}

// No chunk comes but for a credit.
//
// Promise(rabbitmq/stream-credits): The broker sends no more chunks of a stream than there are credits for.
func TestCredits(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(nil)
		for i := range 10 {
			s.put(name, i, 1) // a chunk each
		}
		in := s.subscribe(name, First, 3)
		for range 3 {
			in.next()
		}
		// What the broker sends of itself comes before its answers.
		for range 3 {
			_, _, err := s.QueryOffset(s.ctx(), "x", name)
			s.check(err)
		}
		if len(in.chunks) != 0 {
			s.Errorf("%d chunks without a credit", len(in.chunks))
		}
		s.check(in.Credit(2))
		if c := in.next(); c.First != 3 {
			s.Errorf("then comes %d", c.First)
		}
		s.check(in.Unsubscribe(s.ctx()))
		if err := in.ended(); !errors.Is(err, ErrClosed) || !errors.Is(in.Credit(1), ErrClosed) {
			s.Error(err)
		}
		if in := s.subscribe(name, First, 1); in.id != 0 {
			s.Errorf("the id was not given back: %d", in.id)
		}
	})
}

// A handler that blocks keeps neither the connection nor its other subscriptions.
func TestSlowHandler(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	name := s.create(nil)
	for i := range 5 {
		s.put(name, i, 1)
	}
	handling := make(chan struct{})
	slow, err := s.Subscribe(s.ctx(), Consume{Stream: name, From: First, Credit: 100, Handle: func(ctx context.Context, _ *Subscription, _ Chunk) {
		close(handling) // once: the next chunk is not handed over
		<-ctx.Done()
	}})
	s.check(err)
	<-handling
	s.subscribe(name, First, 100).read(5)
	s.check(slow.Unsubscribe(s.ctx()))
	<-slow.Done()
}

func TestStats(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(nil)
		s.put(name, 0, 10)
		all, err := s.Stats(s.ctx(), name)
		if strings.HasPrefix(s.Properties()["version"], "3.10.") {
			if !errors.Is(err, ErrNoStats) {
				s.Error(err)
			}
			s.put(name, 10, 1) // the connection lives
			return
		}
		s.check(err)
		if first, found := all["first_chunk_id"]; !found || first != 0 {
			s.Errorf("%v", all)
		}
	})
}

// The broker drops what has a publishing id that is not higher than the highest, and
// confirms it.
//
// Promise(rabbitmq/stream-sequence): Of one publisher reference the broker stores rising publishing ids only; sub-entries count by their last.
func TestPublishingIDs(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(nil)
		sequence := func(want uint64) {
			s.Helper()
			if got, err := s.QueryPublisherSequence(s.ctx(), "relay.7", name); err != nil || got != want {
				s.Errorf("the sequence is %d, %v, want %d", got, err, want)
			}
		}
		sequence(0)
		p := s.publisher(name, "relay.7")
		messages := s.numbered(0, 20)
		s.check(p.Publish(append(messages[1:4:4], messages[10])))
		p.await(10)
		s.check(p.Publish(messages[5:7]))
		p.await(6)
		sequence(10)
		for range 2 {
			s.check(p.PublishSubEntries(messages[11:14]))
			p.await(13)
		}
		s.check(p.Delete(s.ctx()))
		sequence(13)
		p = s.publisher(name, "relay.7") // as after a crash
		s.check(p.Publish(messages[12:15]))
		p.await(14)
		var bodies []string
		got := s.subscribe(name, First, 10).read(8)
		for _, body := range got {
			bodies = append(bodies, body)
		}
		slices.Sort(bodies)
		if want := []string{"body 1", "body 10", "body 11", "body 12", "body 13", "body 14", "body 2", "body 3"}; !slices.Equal(bodies, want) {
			s.Errorf("%v", bodies)
		}
	})
}

// Frames keep to the broker's bound, and what fits into none is refused before anything is sent.
func TestFrameMax(t *testing.T) {
	onSite(t, func(s *site) {
		s.config.FrameMax = 4096
		s.Conn = s.dial(s.config)
		name := s.create(nil)
		p := s.publisher(name, "")
		var messages []Numbered
		for i := range 100 {
			m, err := AppendMessage(nil, []byte(strings.Repeat("x", 40*i)), nil)
			s.check(err)
			messages = append(messages, Numbered{ID: uint64(i), Message: m})
		}
		s.check(p.Publish(messages))
		p.await(99)
		s.check(p.PublishSubEntries(messages))
		p.await(99)
		got := s.subscribe(name, First, 10).read(200)
		for i := range 200 {
			if len(got[uint64(i)]) != 40*(i%100) {
				s.Fatalf("offset %d has %d bytes", i, len(got[uint64(i)]))
			}
		}
		large, err := AppendMessage(nil, make([]byte, 4096), nil)
		s.check(err)
		if err := p.Publish([]Numbered{messages[0], {ID: 100, Message: large}}); !errors.Is(err, ErrTooLarge) {
			s.Error(err)
		}
		if len(p.outcomes) != 0 {
			s.Error("a part was sent")
		}
	})
}

// Chunks may be larger than frames.
func TestLargeChunk(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(nil)
		p := s.publisher(name, "")
		body := make([]byte, 20_000)
		var messages []Numbered
		for i := range 500 {
			m, err := AppendMessage(nil, body, nil)
			s.check(err)
			messages = append(messages, Numbered{ID: uint64(i), Message: m})
		}
		s.check(p.Publish(messages))
		p.await(499)
		s.subscribe(name, First, 3).read(500)
	})
}

// Headers travel as application properties.
func TestHeadersTravel(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(nil)
		headers := map[string]any{"keyfold-first-seen": int64(5), "keyfold-stream": "s@8", "keyfold-at": time.UnixMilli(9).UTC()}
		m, err := AppendMessage(nil, []byte("{}"), headers)
		s.check(err)
		p := s.publisher(name, "")
		s.check(p.Publish([]Numbered{{ID: 1, Message: m}}))
		p.await(1)
		got := s.subscribe(name, First, 1).await(s, "{}")
		if fmt.Sprint(got) != fmt.Sprint(headers) {
			s.Errorf("%v", got)
		}
	})
}
