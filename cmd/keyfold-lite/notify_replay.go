package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"keyfold/internal/cli"
	"keyfold/service/notify/api"

	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
)

// notifyReplay decides posts on their own clock.
type notifyReplay struct {
	*notifyRuntime
	*posts

	read    int64
	refused int64
	first   []refusedLine // the first lines that were refused
	// held are events of one timestamp, until one of another is read: they are
	// submitted in the order in which they would be decided together.
	held  []*notify.Notification
	batch []processor.Delivery

	mu       sync.Mutex
	known    int64
	faults   int64 // events that can never be decided
	firstOf  []refusedLine
	failure  error // the first that ends the run
	stopRead context.CancelCauseFunc
}

// refusedLine is a line that is no notification, with all that is wrong with it.
type refusedLine struct {
	Line   int64          `json:"line,omitempty"`
	Event  string         `json:"event_id,omitempty"`
	Faults []notify.Fault `json:"faults"`
}

// maxReported is how many refused lines a run names.
const maxReported = 20

// replayBatch is how many events are submitted at once.
const replayBatch = 256

// run decides all posts and what they leave waiting.
func (r *notifyReplay) run(ctx context.Context) error {
	ctx, r.stopRead = context.WithCancelCause(ctx)
	defer r.stopRead(nil)
	defer context.AfterFunc(r.failed, func() { r.stopRead(context.Cause(r.failed)) })()
	if err := storeUsers(ctx, r.ledger, r.users); err != nil {
		return r.ended(err)
	}
	// What an earlier run decided and did not hand over comes first.
	if err := r.notifier.Start(ctx); err != nil {
		return r.ended(err)
	}
	if err := r.readAll(ctx); err != nil {
		_ = r.stop() // what it says is a consequence
		return r.ended(err)
	}
	if err := r.notifier.FinishReplay(ctx); err != nil {
		_ = r.stop()
		return r.ended(err)
	}
	if err := r.stop(); err != nil {
		return err
	}
	return r.fault()
}

// ended returns why the run ended: the first failure outranks what follows from it,
// and a signal is no failure.
func (r *notifyReplay) ended(err error) error {
	fault := r.fault()
	switch {
	case fault != nil:
		err = fault
	case r.ctx.Err() != nil:
		err = nil
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (what was decided is kept; run the same command again to go on)", err)
}

func (r *notifyReplay) fault() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

func (r *notifyReplay) readAll(ctx context.Context) error {
	for {
		body, err := r.next()
		if errors.Is(err, io.EOF) {
			r.release()
			return errors.Join(r.submit(ctx), context.Cause(ctx))
		}
		if err != nil {
			return err
		}
		r.read++
		event, err := parseLine(body)
		if err != nil {
			r.refuse(err)
			continue
		}
		if len(r.held) > 0 && r.held[0].Timestamp != event.Timestamp {
			r.release()
		}
		r.held = append(r.held, event)
		if len(r.batch) >= replayBatch {
			if err := errors.Join(r.submit(ctx), context.Cause(ctx)); err != nil {
				return err
			}
		}
	}
}

// release queues the events of one timestamp.
func (r *notifyReplay) release() {
	slices.SortStableFunc(r.held, notify.CompareEvents)
	for _, e := range r.held {
		r.batch = append(r.batch, processor.Delivery{Event: e, At: e.Timestamp, Settler: processor.SettlerFunc(func(v processor.Verdict) { r.settle(e, v) })})
	}
	r.held = r.held[:0]
}

func (r *notifyReplay) submit(ctx context.Context) error {
	err := r.notifier.Submit(ctx, r.batch)
	clear(r.batch)
	r.batch = r.batch[:0]
	r.bar.At(int(r.read))
	return err
}

// settle takes the verdict on one event.
func (r *notifyReplay) settle(e *notify.Notification, v processor.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch v.Outcome {
	case processor.Known:
		r.known++
	case processor.Dead:
		r.faults++
		if len(r.firstOf) < maxReported {
			r.firstOf = append(r.firstOf, refusedLine{Event: e.ID.String(), Faults: api.FaultsOf(v.Err)})
			r.say("%s: event %s of user %s: %s", r.name, e.ID, cli.Printable(e.UserID), cli.Printable(v.Err.Error()))
		} else if r.faults == maxReported+1 {
			r.say("%s has more events that are refused: they are counted", r.name)
		}
	case processor.Retry, processor.Park, processor.Unsettled:
		if r.failure == nil && r.ctx.Err() == nil {
			r.failure = v.Err
			r.stopRead(v.Err)
		}
	}
}

// refuse reports a line that is no notification, with all of its faults.
func (r *notifyReplay) refuse(err error) {
	r.refused++
	line := refusedLine{Line: r.line(), Faults: api.FaultsOf(err)}
	if len(r.first) == maxReported {
		if r.refused == maxReported+1 {
			r.say("%s has more lines that are refused: they are counted", r.name)
		}
		return
	}
	r.first = append(r.first, line)
	for _, f := range line.Faults {
		r.say("%s:%d: %s", r.name, line.Line, cli.Printable(f.Text))
	}
}
