package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"keyfold/bench/workload"
	"keyfold/proof/stack"
	"keyfold/sink/ledger/postgres"
)

// partition starts partitions and notifications beside what runs.
func (s *composition) partition(ctx context.Context) error {
	s.profiles, s.partitions = []string{"partition", "notify"}, "16"
	return s.up(ctx, 5)
}

// notifications posts notifications, and holds their decisions and dispatches against the laws and the
// oracle of notifications.
func (s *composition) notifications(ctx context.Context) (err error) {
	const posts, each = 20, 20
	laws, err := workload.ShippedLaws()
	if err != nil {
		return err
	}
	traffic, err := workload.New(workload.Config{Seed: s.Seed, Users: posts * each / 4})
	if err != nil {
		return err
	}
	senders := workload.Receive(s.DSN, nil)
	defer senders.Close()
	for range posts {
		var bodies []string
		for range each {
			e, err := traffic.Next(time.Now())
			if err != nil {
				return err
			}
			laws.Accepted(e)
			bodies = append(bodies, string(e.Body))
		}
		if err := s.postUntil(ctx, composeNotify, "/v1/notifications", bodies); err != nil {
			return err
		}
	}
	store, err := postgres.Open(composeLedger, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return s.decided(ctx, laws, store, senders)
}

// decided waits until every notification is decided and every NOW received.
func (s *composition) decided(ctx context.Context, laws *workload.Laws, store workload.Store, senders *workload.Senders) error {
	ctx, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	var f *workload.Findings
	err := stack.Poll(ctx, time.Second, func() (bool, error) {
		sent, err := senders.Sent()
		if err == nil {
			f, err = laws.Judge(context.WithoutCancel(ctx), store, sent, false)
		}
		return err == nil && f.Err() == nil && f.Undecided == 0 && f.Sent > 0, err
	})
	if err != nil {
		return fmt.Errorf("%w\n%v", err, f)
	}
	s.say("notifications: %s", f)
	return nil
}

// observe starts Prometheus and the sample traffic, and waits until Prometheus has all targets and all
// rules, and profiles have more events than were posted here.
func (s *composition) observe(ctx context.Context) error {
	s.profiles = append(s.profiles, "observability")
	if err := s.up(ctx, 5); err != nil {
		return err
	}
	wanted, err := rules()
	if err != nil {
		return err
	}
	const targets = 5 + 5 + 2 // workers, the other daemons, RabbitMQ's queues and its alarms
	ctx, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	up, loaded, more := 0, 0, int64(0)
	err = stack.Poll(ctx, 2*time.Second, func() (bool, error) {
		ctx := context.WithoutCancel(ctx) // so that the last look is a true one
		up, loaded = targetsUp(ctx), rulesLoaded(ctx)
		var err error
		more, err = s.others(ctx)
		return up == targets && loaded == wanted && more > 0, err
	})
	if err != nil {
		return fmt.Errorf("%w: Prometheus reads %d of %d targets and evaluates %d of %d rules; %d events of the sample traffic are folded", err, up, targets, loaded, wanted, more)
	}
	s.say("Prometheus reads %d targets and evaluates %d rules; the sample traffic is folded", up, loaded)
	if _, err := s.compose(ctx, nil, "stop", "traffic"); err != nil { // status waits until nothing is in hand
		return err
	}
	return s.status(ctx)
}

// others returns how many events are folded that were not posted here.
func (s *composition) others(ctx context.Context) (n int64, err error) {
	profiles, err := s.ReadProfiles(ctx)
	for _, p := range profiles {
		n += p.EventCount
	}
	for _, events := range s.ledger.events {
		n -= int64(len(events))
	}
	return n, err
}

// targetsUp counts the targets that Prometheus reads.
func targetsUp(ctx context.Context) (n int) {
	var answer struct {
		Data struct {
			ActiveTargets []struct{ Health string }
		}
	}
	_ = getJSON(ctx, composePrometheus+"/api/v1/targets", &answer) // none, and asked again
	for _, t := range answer.Data.ActiveTargets {
		if t.Health == "up" {
			n++
		}
	}
	return n
}

// rulesLoaded counts the rules that Prometheus evaluates without a fault.
func rulesLoaded(ctx context.Context) (n int) {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Health string }
			}
		}
	}
	_ = getJSON(ctx, composePrometheus+"/api/v1/rules", &answer) // none, and asked again
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if r.Health == "ok" {
				n++
			}
		}
	}
	return n
}

func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := posting.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}
