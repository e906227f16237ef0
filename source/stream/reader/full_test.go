package reader

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/stream"
)

// credits counts what is asked for.
type credits chan uint16

func (c credits) Credit(n uint16) error {
	c <- n
	return nil
}

// Where what waits in process for its next attempt is more than may be held, it is tried
// again, and reading goes on.
//
// Promise(bounds/held)
func TestAFullReaderRetries(t *testing.T) {
	const events = 100
	c, err := consume.New(consume.Config{
		DSN: "amqp://guest:guest@localhost:5672/", Names: rabbit.DefaultNames(), Prefetch: 100, MaxRetries: 3, RetryDelay: 10 * time.Millisecond,
	}, consume.Ports{Retries: consume.InProcess{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := aSession(nil)
	s.outside = c.NewOutside()
	owner := s.reader.owner
	owner.config.Names, owner.held = rabbit.DefaultNames(), newHeld(10_000)
	s.reader.log = slog.New(slog.DiscardHandler)
	s.reader.deliver = func(_ context.Context, all []profile.Delivery) error {
		for _, d := range all {
			v := engine.Verdict{Outcome: engine.Folded}
			if d.Attempt == 1 { // what it needs is away
				v = engine.Verdict{Outcome: engine.Retry, Err: errors.New("503"), AbsentAt: 5}
			}
			d.Settler.Settle(v)
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	chunks, asked, ended := make(chan stream.Chunk), make(credits, 1), make(chan error, 1)
	go func() { ended <- s.reader.readChunks(ctx, s, asked, chunks) }()
	chunks <- chunksOf(t, events, 10)[0]
	if n := <-asked; n != 1 || owner.held.now() > 10_000 {
		t.Errorf("%d chunks are asked for with %d bytes held", n, owner.held.now())
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A message that is no event counts as held until its letter is there.
func TestWhatIsNoEventIsHeld(t *testing.T) {
	c, err := consume.New(consume.Config{DSN: "amqp://guest:guest@localhost:5672/", Names: rabbit.DefaultNames(), Prefetch: 100, MaxRetries: 3, RetryDelay: time.Second},
		consume.Ports{Retries: consume.InProcess{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := aSession(nil)
	s.outside = c.NewOutside()
	s.reader.owner.config.Names = rabbit.DefaultNames()
	s.reader.log = slog.New(slog.DiscardHandler)
	body := make([]byte, 4096)
	m, err := stream.AppendMessage(nil, body, nil)
	if err != nil {
		t.Fatal(err)
	}
	chunk := stream.NewChunk("s", 0, engine.Now(), m, m)
	if err := s.handOver(t.Context(), &chunk); err != nil {
		t.Fatal(err)
	}
	if n := s.reader.owner.held.now(); n < 2*int64(len(body)) {
		t.Errorf("%d bytes are held", n)
	}
}
