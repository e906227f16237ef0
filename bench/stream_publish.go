package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/report"
	"keyfold/source/stream"
)

// publish fills the streams: each user's events into the stream of its slot.
func (s *streaming) publish(ctx context.Context, r *report.Report, event eventMaker) error {
	messages := make([][]stream.Numbered, len(s.names))
	for i := range s.events {
		body, _, err := event(i, fmt.Sprintf("stream-%056d", i))
		if err != nil {
			return err
		}
		e, err := profile.ParseEvent(body, time.Now())
		if err != nil {
			return err
		}
		message, err := stream.AppendMessage(nil, body, nil)
		if err != nil {
			return err
		}
		at := engine.SlotOf(e.UserID) % len(s.names)
		messages[at] = append(messages[at], stream.Numbered{ID: uint64(len(messages[at])), Message: message})
	}
	conn, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	c, err := s.begin()
	if err != nil {
		return err
	}
	var publishing sync.WaitGroup
	errs := make([]error, len(s.names))
	for i, name := range s.names {
		publishing.Go(func() { errs[i] = publishAll(ctx, conn, name, messages[i]) })
	}
	publishing.Wait()
	return errors.Join(append(errs, c.end(r.Of("publish to streams"), s.events))...)
}

// inFlight is how many messages are published before the confirms of those before them.
const inFlight = 20_000

func publishAll(ctx context.Context, conn *stream.Conn, name string, all []stream.Numbered) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	confirmed := make(chan uint64, len(all)+1)
	p, err := conn.DeclarePublisher(ctx, stream.Publishing{Stream: name, Handle: func(o stream.Outcome) {
		if o.Err != nil {
			cancel(o.Err)
		}
		for _, id := range o.IDs {
			confirmed <- id + 1
		}
	}})
	if err != nil {
		return err
	}
	for sent, done := 0, uint64(0); done < uint64(len(all)); {
		if n := min(len(all)-sent, stream.MaxSubEntry*8); n > 0 && sent-int(done) < inFlight {
			if err := p.PublishSubEntries(all[sent : sent+n]); err != nil {
				return err
			}
			sent += n
			continue
		}
		select {
		case id := <-confirmed:
			done = max(done, id)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return p.Delete(ctx)
}
