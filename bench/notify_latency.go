package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"keyfold/bench/workload"
	"keyfold/engine/notify"
	"keyfold/internal/report"
	"keyfold/sink/senders/message"
)

// latencyCmd publishes at a rate to one worker.
type latencyCmd struct {
	notifyFlags `embed:"" set:"users=20000"`

	Rate     rate          `default:"300/s" help:"Events per unit of time: 300/s."`
	Warm     time.Duration `default:"10s" help:"How long to publish before it counts."`
	Duration time.Duration `default:"60s" help:"How long to publish while it counts."`
}

// Run measures.
func (c *latencyCmd) Run(ctx context.Context, r *report.Report) error {
	return c.run(ctx, r, func(ctx context.Context, b *notifyBench) error {
		t, err := b.traffic(zipf)
		if err != nil {
			return err
		}
		if err := b.start(ctx, 1); err != nil {
			return err
		}
		s := b.senders(nil)
		warm := b.newPaced(t, c.Rate, phase{span: c.Warm})
		if err := warm.run(ctx); err != nil {
			return err
		}
		p := b.newPaced(t, c.Rate, phase{span: c.Duration})
		if err := p.run(ctx); err != nil {
			return err
		}
		m, err := b.await(ctx, warm.events()+p.events(), awaitLimit)
		if err != nil {
			return err
		}
		time.Sleep(time.Second) // the last dispatches come
		committed, err := workload.Committed(ctx, b.Ledger, 0)
		if err != nil {
			return err
		}
		published := p.published.all()
		r.Add("published", "events", float64(p.events()))
		m.outcomes(r)
		r.Latency("publish to commit", between(published, committed))
		r.Latency("publish to dispatch", between(published, s.all()))
		return nil
	})
}

// senders takes dispatches until the stack ends, and notes when each event's came.
func (b *notifyBench) senders(each func(message.Message, time.Time)) *times {
	came := newTimes()
	s := workload.Receive(b.DSN, func(m message.Message, at time.Time) {
		for _, id := range m.EventIDs {
			came.first(id, at)
		}
		if each != nil {
			each(m, at)
		}
	})
	b.AtEnd(s.Close)
	return came
}

// paced publishes events at a rate, each at its time.
type paced struct {
	scenario
	bench     *notifyBench
	traffic   *workload.Traffic
	published *times
	accept    func(*notify.Notification) // where set, gets each event once it is confirmed
	waiting   chan *notify.Notification
	failed    chan error
}

func (b *notifyBench) newPaced(t *workload.Traffic, r rate, phases ...phase) *paced {
	p := &paced{bench: b, traffic: t, published: newTimes(), waiting: make(chan *notify.Notification, 1<<16), failed: make(chan error, 1)}
	p.rate, p.phases, p.send = r, phases, p.next
	return p
}

// next makes an event that is due now. The publishers take it from there: a confirm is
// awaited beside the next events.
func (p *paced) next(_ context.Context, _ int, due time.Time) error {
	select {
	case err := <-p.failed:
		return err
	default:
	}
	e, err := p.traffic.Next(time.Now())
	if err != nil {
		return err
	}
	p.published.first(e.ID, due)
	p.waiting <- e
	return nil
}

// run goes through the phases and returns when each event is confirmed.
func (p *paced) run(ctx context.Context) error {
	var publishers sync.WaitGroup
	var accepting sync.Mutex
	for range 4 {
		publishers.Go(func() {
			for e := range p.waiting {
				events := p.more(e)
				if err := p.bench.publish(ctx, events); err != nil {
					select {
					case p.failed <- err:
					default:
					}
					continue
				}
				if p.accept != nil {
					accepting.Lock()
					for _, e := range events {
						p.accept(e)
					}
					accepting.Unlock()
				}
			}
		})
	}
	err := p.scenario.run(ctx)
	close(p.waiting)
	publishers.Wait()
	select {
	case failed := <-p.failed:
		err = errors.Join(err, failed)
	default:
	}
	return err
}

// more returns an event with those that wait behind it.
func (p *paced) more(e *notify.Notification) []*notify.Notification {
	events := []*notify.Notification{e}
	for len(events) < 100 {
		select {
		case e, open := <-p.waiting:
			if !open {
				return events
			}
			events = append(events, e)
		default:
			return events
		}
	}
	return events
}
