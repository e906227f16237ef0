package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"keyfold/engine/failpoint"
)

// result is what a run came to.
type result struct {
	soak     *soak
	findings *findings
	took     time.Duration
	missed   []string // failpoints
}

// run is one soak, from the first server to the verdict. The error says what is
// wrong, by users and events; everything needed to do it again is the seed.
func run(ctx context.Context, c settings) (res *result, err error) {
	if c.Scenario != "" {
		c.Busy, c.Plain = 0.5, true
	}
	s, err := prepare(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.play(ctx); err != nil {
		s.fleet.close()
		return &result{soak: s, took: time.Since(s.began)}, err
	}
	return s.conclude(ctx)
}

// play publishes what the scenario begins with, starts the workers and brings the
// faults. What is published before the first worker starts fills the prefetch of
// several with one user's events.
func (s *soak) play(ctx context.Context) error {
	chosen, alone := scenarios[s.Scenario]
	if !alone {
		chosen = scenario{fed: true, bring: (*soak).stress}
	}
	for left := chosen.events; left > 0; left -= maxBurst {
		if err := s.feed.publish(ctx, min(left, maxBurst)); err != nil {
			return err
		}
	}
	if err := s.fleet.scale(s.Workers); err != nil {
		return err
	}
	feeding, stop := context.WithCancel(ctx)
	defer stop()
	fed := make(chan error, 1)
	go func() {
		if !chosen.fed {
			stop()
		}
		fed <- s.feed.run(feeding)
	}()
	err := s.someFolded(ctx, chosen.folded)
	if err == nil {
		err = chosen.bring(s, ctx, rand.New(rand.NewPCG(s.Seed, 0x6668)))
	}
	stop()
	return errors.Join(err, <-fed)
}

// stress brings the faults.
func (s *soak) stress(ctx context.Context, _ *rand.Rand) error {
	if s.Directed {
		return s.visit(ctx, failpoint.Names, true)
	}
	p := schedule{soak: s}
	plan := newPlan(s.Seed, s.Mix, s.Duration, s.Workers)
	s.say("plan: %d steps in %v", len(plan), s.Duration)
	if err := p.follow(ctx, plan, s.Duration, p.do); err != nil {
		return err
	}
	if !s.AllPoints {
		return nil
	}
	if err := s.heal(); err != nil {
		return err
	}
	missed, err := s.missed(failpoint.Names, true)
	if err != nil || len(missed) == 0 {
		return err
	}
	s.say("failpoints the plan has missed: %s", strings.Join(missed, ", "))
	return s.visit(ctx, missed, false)
}

// conclude brings the stack to rest, stops the workers and judges.
func (s *soak) conclude(ctx context.Context) (*result, error) {
	r := &result{soak: s, took: time.Since(s.began)}
	s.say("the last fault is over; waiting for the queues to be empty")
	if len(s.fleet.running()) == 0 {
		if err := s.fleet.scale(1); err != nil {
			return r, err
		}
	}
	var err error
	r.findings, err = s.checkpoint(ctx)
	if s.Scenario != "" {
		s.say("the busy user: %s", s.hot(ctx))
	}
	err = errors.Join(err, s.fleet.retire())
	left, depthErr := s.depths()
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("messages went back to the queues when the workers had stopped: %v", left))
	}
	var hitErr error
	if r.missed, hitErr = s.missed(failpoint.Names, true); s.AllPoints && len(r.missed) > 0 {
		err = errors.Join(err, fmt.Errorf("failpoints never met: %s", strings.Join(r.missed, ", ")))
	}
	return r, errors.Join(err, depthErr, hitErr, s.fleet.fault())
}

// report prints what happened.
func (r *result) report() {
	s := r.soak
	line := s.line
	line("seed %d, %v of faults, up to %d workers", s.Seed, r.took.Round(time.Second), s.Workers)
	line("actions      %s", counted(s.counts))
	line("kill -9      %d: workers %d, broker %d, store %d; beside them %d workers by failpoints",
		s.counts.kills(), s.counts[killWorker], s.counts[killBroker], s.counts[killStore], s.fleet.ends["killed by a failpoint"])
	line("worker ends  %s", counted(s.fleet.ends))
	o := s.ledger.oracle
	line("published    %d messages (%d more than once): %d folded, %d repeated, %d of unknown products, %d poison",
		s.ledger.published, s.feed.again.Load(), o.Folded, o.Repeated, o.Missing, len(s.ledger.poison))
	line("workers saw  %d redelivered, %d retries, %d conflicts, %d unknown outcomes, %d stale settlements",
		s.fleet.total("keyfold_rabbitmq_redelivered_total"), s.fleet.total("keyfold_retries_total"),
		s.fleet.total("keyfold_conflicts_total"), s.fleet.total("keyfold_unknown_outcomes_total"),
		s.fleet.total("keyfold_rabbitmq_stale_settlements_total"))
	if s.Streams > 0 {
		line("streams      %d; workers read %d events, of which %d were done by their marks",
			s.Streams, s.fleet.total("keyfold_stream_read_total"), s.fleet.total("keyfold_replayed_events_total"))
	}
	line("metrics      %d scrapes of workers, in each all deliveries are accounted for", s.fleet.total(balanced))
	line("failpoints   %d of %d met", len(failpoint.Names)-len(r.missed), len(failpoint.Names))
	if f := r.findings; f != nil {
		line("dead letters %d of %d poison, %d copies", f.letters, len(s.ledger.poison), f.copies)
		line("profiles     %d users; lost %d, doubled %d, other differences %d",
			len(s.ledger.events), len(f.lost), len(f.doubled), len(f.other))
	}
}
