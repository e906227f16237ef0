package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"keyfold/engine/failpoint"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
)

// ending is what undoes a step that lasts.
type ending struct {
	at time.Time
	do func()
}

// timeline waits, and has what lasts undone meanwhile.
type timeline struct{ endings []ending }

// schedule carries out a plan.
type schedule struct {
	*soak
	timeline
}

// follow carries a plan out that lasts for duration, each step at its time or, where one
// before it took long, as soon as it can. An error ends the run: a fault could not be
// made, or a checkpoint found a difference.
func (p *timeline) follow(ctx context.Context, plan []step, duration time.Duration, do func(context.Context, step) error) error {
	began := time.Now()
	for _, st := range plan {
		if err := p.waitUntil(ctx, began.Add(st.At)); err != nil {
			return err
		}
		if err := do(ctx, st); err != nil {
			return fmt.Errorf("%s: %w", st, err)
		}
	}
	return p.waitUntil(ctx, began.Add(duration))
}

// do carries out one step and looks at the workers.
func (p *schedule) do(ctx context.Context, st step) error {
	if st.Do.needsTestStore() && !p.store.own() {
		return nil
	}
	p.say("%s  (planned at %.1fs)", st, st.At.Seconds())
	if err := p.act(ctx, st); err != nil {
		return err
	}
	p.counts[st.Do]++
	return p.fleet.fault()
}

// waitUntil sleeps until a time and has endings happen meanwhile.
func (p *timeline) waitUntil(ctx context.Context, at time.Time) error {
	for {
		next, ends := at, -1
		for i, e := range p.endings {
			if e.at.Before(next) {
				next, ends = e.at, i
			}
		}
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return ctx.Err()
		}
		if ends < 0 {
			return nil
		}
		do := p.endings[ends].do
		p.endings = slices.Delete(p.endings, ends, ends+1)
		do()
	}
}

// later has something undone after d.
func (p *timeline) later(d time.Duration, do func()) {
	p.endings = append(p.endings, ending{time.Now().Add(d), do})
}

// rewindOnce sets the streams back. A store that is away at the moment does not do it.
func (p *schedule) rewindOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := p.rewind(ctx); err != nil {
		p.say("not rewound: %v", err)
	}
}

// act carries out one step.
func (p *schedule) act(ctx context.Context, st step) error {
	switch st.Do {
	case killBroker, stopBroker, alarm:
		return p.actOnBroker(st)
	case killStore, stopStore, loseReply, failConcern, failOver, stepDown:
		return p.actOnStore(st)
	case deleteMain, deleteRetry:
		return p.deleteQueue(ctx, st)
	case scale:
		return p.fleet.scale(st.Count)
	case replay:
		p.replayOnce(ctx, st)
		return nil
	case rewind:
		p.rewindOnce(ctx)
		return nil
	}
	w, err := p.fleet.await(ctx, st.Which)
	if err != nil {
		return err
	}
	p.actOnWorker(st, w)
	return nil
}

func (p *schedule) actOnWorker(st step, w *worker) {
	switch st.Do {
	case killWorker:
		p.fleet.kill(w)
	case stopWorker:
		_ = w.Signal(syscall.SIGSTOP)
		p.later(st.For, func() { _ = w.Signal(syscall.SIGCONT) })
	case terminate:
		p.fleet.terminate(w)
	case arm:
		p.arm(st, w)
	case silenceBroker, slowBroker, cutBroker:
		p.disturb(st, p.relays[w.slot].broker)
	case silenceStore, slowStore, cutStore:
		if relay := p.relays[w.slot].store; relay != nil {
			p.disturb(st, relay)
		}
	}
}

// disturb does something to the connections between a worker and a server.
func (p *schedule) disturb(st step, relay *rabbittest.Proxy) {
	switch st.Do {
	case silenceBroker, silenceStore:
		relay.Freeze()
		p.later(st.For, relay.Thaw)
	case slowBroker, slowStore:
		relay.Delay(40 * time.Millisecond)
		p.later(st.For, func() { relay.Delay(0) })
	default:
		relay.Cut()
	}
}

// arm replaces a worker by one that fails at a point.
func (p *schedule) arm(st step, w *worker) {
	started := p.fleet.arm(w.slot, armed(st))
	p.fleet.terminate(w)
	if st.Point != failpoint.Closing && st.Point != failpoint.Drained {
		return
	}
	p.later(3*time.Second, func() {
		select {
		case w := <-started:
			p.fleet.terminate(w)
		default: // its slot is not wanted any more
		}
	})
}

// armed is the setting of a step's failpoint: it dies there, or a third of the
// time fails there again and again where that is possible.
func armed(st step) string {
	rare := []string{failpoint.RetryConfirmed, failpoint.LetterConfirmed, failpoint.Unconfirmed, failpoint.Closing, failpoint.Drained}
	hit := 1
	if !slices.Contains(rare, st.Point) {
		hit = 1 + st.Which%25
	}
	if st.Which%3 == 0 && failpoint.TakesErrors(st.Point) {
		return fmt.Sprintf("%s=error:%d/%d", st.Point, hit, 300)
	}
	return fmt.Sprintf("%s=exit:%d", st.Point, hit)
}

func (p *schedule) actOnBroker(st step) error {
	// A stopped broker can neither flush nor be told anything.
	if err := p.Broker.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	switch st.Do {
	case killBroker:
		return p.crashBroker(st.For)
	case stopBroker:
		p.later(st.For, func() { _ = p.Broker.Signal(syscall.SIGCONT) })
		return p.Broker.Signal(syscall.SIGSTOP)
	default:
		if err := p.Broker.SetAlarm(true); err != nil {
			return err
		}
		time.Sleep(st.For)
		return p.Broker.SetAlarm(false)
	}
}

func (p *schedule) actOnStore(st step) error {
	_ = p.store.Signal(syscall.SIGCONT)
	writes := []string{"update", "insert", "bulkWrite"}
	switch st.Do {
	case killStore:
		p.store.Kill()
		time.Sleep(st.For)
		return p.store.Boot()
	case stopStore:
		_ = p.store.Signal(syscall.SIGSTOP)
		p.later(st.For, func() { _ = p.store.Signal(syscall.SIGCONT) })
		return nil
	case loseReply:
		return p.store.inject(mongotest.Fault{Reply: mongotest.LoseReply, Commands: writes, Times: st.Count})
	case failConcern:
		return p.store.failConcern(writes, st.Count)
	case failOver:
		return p.store.failOver(st.For)
	default:
		return p.store.control(func(r *mongotest.Remote) error { return r.StepDown(st.For) })
	}
}

// deleteQueue deletes a queue and has `setup` declare it again after a while.
// What is in a queue is lost with it by definition. So the workers' queue is
// deleted when the stack is at rest and was found right, with the feed paused;
// what is published afterwards is returned as unroutable, and published again. A
// delay queue is deleted only while the broker finds it empty.
func (p *schedule) deleteQueue(ctx context.Context, st step) error {
	names := rabbit.DefaultNames()
	if st.Do == deleteRetry {
		queue := names.RetryQueue(200 * time.Millisecond)
		if _, err := p.Broker.Tell("delete_queue", queue, "--if-empty"); err != nil {
			p.say("%s is not empty: left alone", queue)
			return nil
		}
	} else {
		resume := sync.OnceFunc(p.feed.pause())
		defer resume()
		f, err := p.checkpoint(ctx)
		if err != nil {
			return errors.Join(errors.New("checkpoint"), err)
		}
		p.say("checkpoint: %d published, all accounted for, %d dead letters and %d copies", p.ledger.published, f.letters, f.copies)
		if _, err := p.Broker.Tell("delete_queue", names.Queue, "--if-empty"); err != nil {
			return err
		}
		resume()
	}
	time.Sleep(st.For)
	_, err := p.Run(ctx, nil, nil, "setup")
	return err
}

// replay sends some dead letters back to the workers, which refuse them again;
// half of the time it dies between the confirm and the removal.
func (p *schedule) replayOnce(ctx context.Context, st step) {
	points := ""
	if st.Which%2 == 0 {
		points = failpoint.ReplayConfirmed + "=exit:1"
	}
	if err := p.replay(ctx, points, 20); err != nil && !killed(err) {
		p.say("replay failed, as it may while a server is away: %v", err)
	}
}

// replay sends dead letters of a wrong version back, through failpoints.
func (s *soak) replay(ctx context.Context, points string, limit int) error {
	_, err := s.Run(ctx, nil, []string{"KEYFOLD_FAILPOINTS=" + points}, "dlq", "replay", "--error", "version", "--limit", strconv.Itoa(limit))
	return err
}
