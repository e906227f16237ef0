package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// Everything that may be called at once is, while streams are deleted and connections
// closed: nothing blocks for ever, and each thing ends.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	names := []string{s.create(nil), s.create(nil), s.create(nil)}
	for round := range 5 {
		c := s.dial(s.config)
		var working sync.WaitGroup
		for i := range 6 {
			working.Go(func() { publishUntilTheEnd(s.ctx(), c, names[i%3]) })
			working.Go(func() { consumeUntilTheEnd(s.ctx(), c, names[i%3]) })
		}
		working.Go(func() {
			for c.Err() == nil {
				_, _ = c.Metadata(s.ctx(), names...)
				_ = c.StoreOffset("x", names[0], 1)
			}
		})
		time.Sleep(100 * time.Millisecond) // let them work; any time will do
		deleted := round%2 == 0
		if deleted {
			s.check(s.Delete(s.ctx(), names[round%3]))
			s.check(s.Create(s.ctx(), names[round%3], nil))
		}
		c.Close(s.ctx())
		working.Wait()
		// RabbitMQ 4.0.5 may fail at a busy connection, one of whose streams is deleted.
		if err := c.Err(); !errors.Is(err, ErrClosed) && !deleted {
			t.Error(err)
		}
	}
}

func publishUntilTheEnd(ctx context.Context, c *Conn, name string) {
	for c.Err() == nil {
		p, err := c.DeclarePublisher(ctx, Publishing{Stream: name, Handle: func(Outcome) {}})
		if err != nil {
			continue
		}
		for i := range uint64(20) {
			m, _ := AppendMessage(nil, fmt.Appendf(nil, "body %d", i), nil)
			if p.Publish([]Numbered{{ID: i, Message: m}}) != nil {
				break
			}
		}
		_ = p.Delete(ctx)
		<-p.Done()
	}
}

func consumeUntilTheEnd(ctx context.Context, c *Conn, name string) {
	for c.Err() == nil {
		seen := make(chan struct{}, 1)
		sub, err := c.Subscribe(ctx, Consume{Stream: name, From: First, Credit: 2, Handle: func(_ context.Context, s *Subscription, chunk Chunk) {
			_ = chunk.Each(func(uint64, Message) error { return nil })
			_ = s.Credit(1)
			select {
			case seen <- struct{}{}:
			default:
			}
		}})
		if err != nil {
			continue
		}
		select {
		case <-seen:
			_ = sub.Unsubscribe(ctx)
		case <-sub.Done():
		}
		<-sub.Done()
	}
}
