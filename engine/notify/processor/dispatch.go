package processor

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/notify"
)

// send is one message to the senders.
type send struct {
	dispatch notify.Dispatch
	again    bool // its decision was made by an earlier flush
}

// sends returns the messages for a work's NOWs: one per event, one per digest.
func (w *work) sends() (sends []send) {
	digests := map[uuid.UUID]int{}
	for i := range w.change.Decided {
		d := &w.change.Decided[i]
		if d.Record.Outcome != notify.Now {
			continue
		}
		id := dispatchID(d.Record.EventID, d.Record.DigestID)
		at, ok := digests[id]
		if !ok {
			at = len(sends)
			digests[id] = at
			sends = append(sends, send{dispatch: notify.Dispatch{ID: id}})
		}
		m := &sends[at].dispatch
		m.Records, m.Events = append(m.Records, d.Record), append(m.Events, d.Event)
	}
	return sends
}

// dispatch hands messages over and queues the marks of those that are confirmed. It
// returns why others were not, by their id.
func (p *Processor) dispatch(ctx context.Context, sends []send) (failed map[uuid.UUID]error) {
	var (
		kept []send
		out  []notify.Dispatch
	)
	for _, s := range sends {
		if p.leaveOutExpired(&s); len(s.dispatch.Events) > 0 {
			kept, out = append(kept, s), append(out, s.dispatch)
		}
	}
	if len(out) == 0 {
		return nil
	}
	for i, err := range p.ports.Dispatcher.Send(ctx, out) {
		if err == nil {
			err = failpoint.Hit(failpoint.Dispatched)
		}
		if err != nil {
			if failed == nil {
				failed = map[uuid.UUID]error{}
			}
			failed[out[i].ID] = fmt.Errorf("hand over: %w", err)
			p.stats.Refused.Add(1)
			p.logRefused(&out[i], err)
			continue
		}
		p.stats.Dispatched.Add(1)
		if kept[i].again {
			p.stats.Again.Add(1)
		}
		for _, e := range out[i].Events {
			p.marks.add(e.ID)
		}
	}
	return failed
}

// leaveOutExpired takes events out of a message that expired since their decision.
// A replay hands over at the instant of the decision.
func (p *Processor) leaveOutExpired(s *send) {
	if p.config.Replay {
		return
	}
	now := p.ports.Clock()
	d := notify.Dispatch{ID: s.dispatch.ID}
	for i, e := range s.dispatch.Events {
		if e.ExpiresAt != 0 && now >= e.ExpiresAt {
			p.stats.Expired.Add(1)
			p.logExpired(&s.dispatch.Records[i])
			p.marks.add(e.ID)
			continue
		}
		d.Events, d.Records = append(d.Events, e), append(d.Records, s.dispatch.Records[i])
	}
	s.dispatch = d
}

const (
	// sweepChunk is how many undispatched decisions a sweep reads at once, beside
	// those that it has tried.
	sweepChunk = 200
	// sweepTried bounds how many decisions one sweep reads again because their
	// hand-over failed.
	sweepTried = 10_000
)

// Sweep hands over what is decided NOW before an instant and was not confirmed: the
// process that decided it has ended, or the receiver refused it. Each dispatch is
// tried once. It returns how many were confirmed, and an error where some were not. A
// receiver that is down ends the sweep; one that refuses dispatches for good does not
// keep it from later ones.
func (p *Processor) Sweep(ctx context.Context, before engine.Millis) (confirmed int, err error) {
	tried := map[uuid.UUID]bool{} // dispatches whose hand-over failed
	keys := 0                     // of their events
	for {
		if err := p.Mark(ctx); err != nil { // what is marked is not found again
			return confirmed, err
		}
		found, readErr := p.ports.Ledger.Undispatched(ctx, before, sweepChunk+keys)
		if readErr != nil {
			return confirmed, fmt.Errorf("read undispatched decisions: %w", readErr)
		}
		found = slices.DeleteFunc(found, func(d notify.Dispatch) bool { return tried[d.ID] || p.marking(&d) })
		sends := make([]send, len(found))
		for i := range found {
			sends[i] = send{dispatch: found[i], again: true}
		}
		failed := p.dispatch(ctx, sends)
		confirmed += len(found) - len(failed)
		down := len(failed) > 0 && len(failed) == len(found)
		for i := range found {
			if refused := failed[found[i].ID]; refused != nil {
				tried[found[i].ID], err = true, refused
				keys += len(found[i].Events)
				down = down && engine.KindOf(refused) != engine.Permanent
			}
		}
		if len(found) == 0 || down || keys > sweepTried {
			return confirmed, errorOf(p.Mark(ctx), err)
		}
	}
}

// marking reports whether the marks of all events of a dispatch wait to be written.
func (p *Processor) marking(d *notify.Dispatch) bool {
	return !slices.ContainsFunc(d.Records, func(r notify.Record) bool { return !p.marks.has(r.EventID) })
}

func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
