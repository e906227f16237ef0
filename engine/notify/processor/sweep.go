package processor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/backoff"
	"keyfold/engine/notify"
)

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
// tried once, and one that was refused for good rests between sweeps, longer each time.
// It returns how many were confirmed, and an error where some were not. A receiver that
// is down ends the sweep; one that refuses dispatches for good does not keep it from
// later ones.
func (p *Processor) Sweep(ctx context.Context, before engine.Millis) (confirmed int, err error) {
	tried := map[uuid.UUID]bool{} // dispatches whose hand-over failed, or that are left out
	sent := map[uuid.UUID]bool{}  // handed over by this sweep
	keys := 0                     // of the events of those that were tried
	for {
		if err := p.Mark(ctx); err != nil { // what is marked is not found again
			return confirmed, err
		}
		found, readErr := p.ports.Ledger.Undispatched(ctx, before, sweepChunk+keys)
		if readErr != nil {
			return confirmed, fmt.Errorf("read undispatched decisions: %w", readErr)
		}
		read := len(tried)
		found = slices.DeleteFunc(found, func(d notify.Dispatch) bool {
			// What was sent and is found again has a key that another call has locked:
			// its mark was not written.
			if !tried[d.ID] && (sent[d.ID] || p.rests.holds(d.ID, p.ports.Clock())) {
				tried[d.ID] = true
				keys += len(d.Events)
			}
			return tried[d.ID] || p.marking(&d)
		})
		leftOut := len(tried) - read
		sends := make([]send, len(found))
		for i := range found {
			sends[i] = send{dispatch: found[i], again: true}
		}
		published, failed := p.dispatch(ctx, sends)
		confirmed += published
		down := len(failed) > 0 && published == 0
		for i := range found {
			refused := failed[found[i].ID]
			forGood := refusedForGood(refused)
			p.rests.note(found[i].ID, forGood, p.ports.Clock())
			if refused != nil {
				tried[found[i].ID], err = true, refused
				keys += len(found[i].Events)
				down = down && !forGood
			} else {
				sent[found[i].ID] = true
			}
		}
		if len(found)+leftOut == 0 || down || keys > sweepTried {
			return confirmed, errorOf(p.Mark(ctx), err)
		}
	}
}

// refusedForGood reports whether the next try of a dispatch would fail too, while others
// may not: the receiver refuses it, or has no queue for it.
func refusedForGood(err error) bool {
	kind := engine.KindOf(err)
	return err != nil && (kind == engine.Permanent || kind == engine.Configuration)
}

// marking reports whether the marks of all events of a dispatch wait to be written.
func (p *Processor) marking(d *notify.Dispatch) bool {
	return !slices.ContainsFunc(d.Records, func(r notify.Record) bool { return !p.marks.has(r.EventID) })
}

// Bounds of how long a dispatch rests that was refused for good.
const restMin, restMax = 2 * time.Minute, 10 * time.Minute

// rests are the dispatches that sweeps leave out for a time. The zero value has none.
type rests struct {
	mu  sync.Mutex
	all map[uuid.UUID]*rest
}

type rest struct {
	until engine.Millis
	wait  backoff.Backoff
}

// holds reports whether a dispatch is left out now.
func (r *rests) holds(id uuid.UUID, now engine.Millis) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := r.all[id]
	return held != nil && now < held.until
}

// note takes what became of a dispatch.
func (r *rests) note(id uuid.UUID, refused bool, now engine.Millis) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !refused {
		delete(r.all, id)
		return
	}
	if r.all == nil || len(r.all) > sweepTried { // those that were forgotten are tried again
		r.all = map[uuid.UUID]*rest{}
	}
	held := r.all[id]
	if held == nil {
		held = &rest{wait: backoff.Backoff{Min: restMin, Max: restMax}}
		r.all[id] = held
	}
	held.until = now + engine.Millis(held.wait.Next().Milliseconds())
}
