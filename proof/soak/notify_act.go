package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"keyfold/bench/workload"
	"keyfold/proof/stack"
	"keyfold/service/notify/broker"

	"keyfold/engine/failpoint"
	"keyfold/sink/ledger/postgres"
	"keyfold/source/rabbit"
)

// workerPoints are the failpoints that a worker can die at.
var workerPoints = slices.DeleteFunc(slices.Clone(failpoint.NotificationNames), func(name string) bool { return slices.Contains(apiPoints, name) })

// apiPoints are those of the API.
var apiPoints = []string{failpoint.Posted, failpoint.Confirmed}

// notifySchedule carries out a plan.
type notifySchedule struct {
	*notifySoak
	timeline
}

// do carries out one step and looks at the processes.
func (p *notifySchedule) do(ctx context.Context, st step) error {
	p.say("%s  (planned at %.1fs)", st, st.At.Seconds())
	if err := p.act(ctx, st); err != nil {
		return err
	}
	p.counts[st.Do]++
	return errors.Join(p.workers.fault(), p.apis.fault(), p.feed.err())
}

// act carries out one step.
func (p *notifySchedule) act(ctx context.Context, st step) error {
	switch st.Do {
	case killBroker:
		return p.crashBroker(st.For)
	case killLedger:
		p.SQL.Kill()
		time.Sleep(st.For)
		return p.SQL.Boot()
	case scale:
		return p.workers.scale(st.Count)
	case killAPI:
		w, err := p.apis.await(ctx, st.Which)
		if err == nil {
			p.apis.kill(w)
		}
		return err
	}
	w, err := p.workers.await(ctx, st.Which)
	if err != nil {
		return err
	}
	switch st.Do {
	case killWorker:
		p.workers.kill(w)
	case killPoller:
		p.workers.arm(w.slot, failpoint.Claimed+"=exit:1")
		p.workers.terminate(w)
	case arm:
		p.workers.arm(w.slot, armed(st))
		p.workers.terminate(w)
	case terminate:
		p.workers.terminate(w)
	}
	return nil
}

// deadLetters are the queues of what was given up.
var deadLetters = []string{broker.Bulk().DeadLetters, broker.Deliveries().DeadLetters}

// notifyRest is how long a healed stack may take to come to rest: a lease of deferrals
// lasts for a minute, and the sweep leaves a NOW alone for as long.
const notifyRest = 6 * time.Minute

// conclude brings the stack to rest and judges.
func (s *notifySoak) conclude(ctx context.Context) error {
	s.say("the last fault is over; waiting until nothing waits")
	if err := s.workers.scale(s.Workers); err != nil {
		return err
	}
	// A worker that starts hands over at once what others do a minute later.
	w, err := s.workers.await(ctx, 0)
	if err != nil {
		return err
	}
	s.workers.terminate(w)
	if err := s.rest(ctx); err != nil {
		return err
	}
	errs := []error{s.workers.retire()}
	s.apis.close()
	for _, queue := range deadLetters {
		letters, err := rabbit.Depth(ctx, s.DSN, queue)
		if errs = append(errs, err); letters > 0 {
			errs = append(errs, fmt.Errorf("%d dead letters in %s, and every message was good", letters, queue))
		}
	}
	missed, hitErr := s.missed(failpoint.NotificationNames, false)
	if (s.AllPoints || s.Directed) && len(missed) > 0 {
		errs = append(errs, fmt.Errorf("failpoints never met: %s", strings.Join(missed, ", ")))
	}
	errs = append(errs, hitErr, s.judge(ctx), s.workers.fault(), s.apis.fault())
	return errors.Join(errs...)
}

// judge holds what is left against the laws.
func (s *notifySoak) judge(ctx context.Context) (err error) {
	store, err := postgres.Open(s.Ledger, 4)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := s.addSets(ctx, store); err != nil {
		return err
	}
	sent, faults := s.senders.Sent()
	if s.findings, err = s.laws.Judge(ctx, store, sent, true); err != nil {
		return errors.Join(faults, err)
	}
	return errors.Join(faults, s.findings.Err(), s.reports.compare(s.findings.Deliveries))
}

// visit has a process die at each point that was not met.
func (s *notifySoak) visit(ctx context.Context) error {
	missed, err := s.missed(failpoint.NotificationNames, false)
	if err != nil {
		return err
	}
	for _, name := range missed {
		s.say("failpoint %s: exit", name)
		if err := s.dieAt(ctx, name); err != nil {
			return fmt.Errorf("failpoint %s: %w", name, err)
		}
	}
	return nil
}

func (s *notifySoak) dieAt(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, visitLimit)
	defer cancel()
	fleet := s.workers
	if slices.Contains(apiPoints, name) {
		fleet = s.apis
	}
	w, err := fleet.await(ctx, 0)
	if err != nil {
		return err
	}
	started := fleet.arm(w.slot, name+"=exit:1")
	fleet.terminate(w)
	if w, err = arrival(ctx, started); err != nil {
		return err
	}
	return s.death(ctx, w)
}

// rest waits until some looks in a row find nothing that waits.
func (s *notifySoak) rest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, notifyRest)
	defer cancel()
	quiet, told := 0, time.Now()
	return stack.Poll(ctx, 500*time.Millisecond, func() (bool, error) {
		waiting, err := s.waiting(ctx)
		if time.Since(told) > 30*time.Second {
			told = time.Now()
			s.say("it waits: %s", strings.Join(waiting, ", "))
		}
		if quiet++; len(waiting) > 0 {
			quiet = 0
		}
		if ctx.Err() != nil {
			err = fmt.Errorf("it waits %v after the last fault: %s", notifyRest, strings.Join(waiting, ", "))
		}
		return quiet == 4, err
	})
}

// waiting tells what is not finished: messages in queues, deferrals, NOWs without a
// mark.
func (s *notifySoak) waiting(ctx context.Context) (all []string, err error) {
	depths, err := s.Broker.Depths("/")
	if err != nil {
		return nil, err
	}
	for _, queue := range slices.Sorted(maps.Keys(depths)) {
		if n := depths[queue]; n > 0 && !slices.Contains(deadLetters, queue) {
			all = append(all, fmt.Sprintf("%d messages in %s", n, queue))
		}
	}
	if n := s.reports.made.Load() - s.reports.confirmed.Load(); n > 0 {
		all = append(all, fmt.Sprintf("%d reports of deliveries", n))
	}
	for what, count := range map[string]string{
		"deferrals":           "SELECT count(*) FROM notify_deferrals",
		"NOWs without a mark": "SELECT count(*) FROM notify_event_keys WHERE outcome = 'NOW' AND NOT dispatched",
	} {
		var n int
		if err := workload.Query(context.WithoutCancel(ctx), s.Ledger, count, nil, &n); err != nil {
			return nil, err
		}
		if n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, what))
		}
	}
	return all, nil
}
