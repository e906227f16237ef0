package processor

import (
	"context"
	"fmt"

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
		id := notify.DispatchID(d.Record.EventID, d.Record.DigestID)
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
func (p *Processor) dispatch(ctx context.Context, sends []send) (published int, failed map[uuid.UUID]error) {
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
		return 0, nil
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
			if engine.KindOf(err) == engine.Configuration {
				p.ports.OnConfigError(err)
			}
			continue
		}
		published++
		p.stats.Dispatched.Add(1)
		if kept[i].again {
			p.stats.Again.Add(1)
		} else if !p.config.Replay {
			p.stats.dispatched(&out[i], p.ports.Clock())
		}
		for _, e := range out[i].Events {
			p.marks.add(notify.DispatchMark{Event: e.ID})
		}
	}
	return published, failed
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
			p.marks.add(notify.DispatchMark{Event: e.ID, Expired: true})
			continue
		}
		d.Events, d.Records = append(d.Events, e), append(d.Records, s.dispatch.Records[i])
	}
	s.dispatch = d
}

func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
