package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"keyfold/proof/stack"
)

// rate is events per unit of time: 1000/min, 200/s.
type rate struct {
	text  string
	pause time.Duration // between two events
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *rate) UnmarshalText(text []byte) error {
	r.text = string(text)
	number, unit, _ := strings.Cut(r.text, "/")
	n, err := strconv.ParseFloat(number, 64)
	per, known := map[string]time.Duration{"": time.Second, "s": time.Second, "sec": time.Second, "min": time.Minute, "h": time.Hour}[unit]
	if err != nil || !(n > 0 && n <= per.Seconds()*1e6) || !known {
		return fmt.Errorf("%q must be a number per unit, such as 1000/min or 200/s, at most 1000000/s", r.text)
	}
	r.pause = time.Duration(float64(per) / n)
	return nil
}

func (r rate) String() string { return r.text }

// phase is a part of a scenario. It begins with a fault, or with a fault's end.
type phase struct {
	name  string
	span  time.Duration
	begin func() error // nil: nothing happens
}

// scenario sends events at a rate while its phases come one after the other.
type scenario struct {
	rate   rate
	phases []phase
	// send sends an event, which is due now. watch, where set, looks at the servers
	// once a second meanwhile.
	send  func(ctx context.Context, i int, due time.Time) error
	watch func(ctx context.Context) error

	current atomic.Int32  // the phase under way, by its place
	late    time.Duration // how late an event was sent at most
}

// events returns how many events are sent.
func (s *scenario) events() int {
	var sum time.Duration
	for _, p := range s.phases {
		sum += p.span
	}
	return int(sum / s.rate.pause)
}

// run goes through the phases. The last one ends when all events are sent.
func (s *scenario) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan error, 1)
	go func() { sent <- s.sendAll(ctx) }()
	sending := true
	for i, p := range s.phases {
		if p.begin != nil {
			if err := p.begin(); err != nil {
				return err
			}
		}
		s.current.Store(int32(i))
		last, end := i == len(s.phases)-1, time.Now().Add(p.span)
		for last && sending || !last && time.Now().Before(end) {
			if s.watch != nil {
				if err := s.watch(ctx); err != nil {
					return err
				}
			}
			pause := time.Second
			if !last {
				pause = min(pause, time.Until(end))
			}
			select {
			case err := <-sent:
				if sending = false; err != nil {
					return err
				}
			case <-time.After(pause):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// sendAll sends each event at its time, however long those before it took.
func (s *scenario) sendAll(ctx context.Context) error {
	began := time.Now()
	for i := range s.events() {
		due := began.Add(time.Duration(i) * s.rate.pause)
		if err := stack.Wait(ctx, time.Until(due)); err != nil {
			return err
		}
		s.late = max(s.late, time.Since(due))
		if err := s.send(ctx, i, due); err != nil {
			return err
		}
	}
	return nil
}

// inTurn measures without and with a fault in turn, so many times each. One run
// before them, the one numbered -1, does not count: connections and caches are empty then.
func inTurn(runs int, measure func(n int, with bool) error) error {
	for n := -1; n < 2*runs; n++ {
		if err := measure(n, n >= 0 && n%2 == 1); err != nil {
			return err
		}
	}
	return nil
}
