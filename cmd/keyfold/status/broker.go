package status

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/service/notify/broker"
	"keyfold/service/status"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// lookAtBroker fills in queues and workers. m is nil where no management API is set.
func lookAtBroker(r *status.Report, a *app.App, m *management) error {
	var managed map[string]managedQueue
	if m == nil {
		r.Notes = append(r.Notes, "RABBITMQ_MANAGEMENT_URL is not set: messages that workers hold, and workers, are not counted at the broker")
	} else if err := askManagement(a.Ctx, r, m, &managed); err != nil {
		r.Add("RabbitMQ", err.Error(), "")
	}
	queues, partitions, err := expected(a)
	if err != nil {
		return err
	}
	if m != nil && managed != nil && partitions > 0 {
		if err := lookAtSlots(a.Ctx, r, m, partitions); err != nil {
			r.Add("RabbitMQ", err.Error(), "")
		}
	}
	queues = append(queues, otherDelays(queues, managed)...)
	if m != nil && managed != nil {
		lookAtPolicies(a.Ctx, r, m, queues, managed)
	}
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = q.Name
	}
	states, err := topology.States(a.Ctx, a.Servers.RabbitMQ, names)
	if err != nil {
		return app.BrokerUnreached(err)
	}
	for _, q := range queues {
		state, there := states[q.Name]
		q.Missing, q.Ready, q.Consumers = !there, state.Ready, state.Consumers
		if more, found := managed[q.Name]; found {
			q.Unacknowledged, q.OldestSeconds = more.Unacknowledged, more.ageOf(time.Now())
		}
		if there || q.Holds != status.Delayed { // a delay has a queue only where it is in use
			r.Queues = append(r.Queues, q)
		}
	}
	return nil
}

func askManagement(ctx context.Context, r *status.Report, m *management, managed *map[string]managedQueue) (err error) {
	if *managed, err = m.queues(ctx); err != nil {
		return err
	}
	if r.Workers, err = m.workers(ctx); err == nil && r.Workers == nil {
		r.Notes = append(r.Notes, "the broker knows no connection by name: workers are not counted there")
	}
	return err
}

// lookAtSlots adds the slots whose events go to no queue, or to two, to the problems.
func lookAtSlots(ctx context.Context, r *status.Report, m *management, partitions int) error {
	names := rabbit.DefaultNames()
	queues, err := m.slotQueues(ctx, names)
	if err != nil {
		return err
	}
	var none, several []string
	for slot := range engine.Slots {
		key := names.SlotKey(slot)
		switch n := len(queues[key]); {
		case n == 0:
			none = append(none, key)
		case n > 1:
			several = append(several, key)
		}
	}
	cure := fmt.Sprintf("run `keyfold setup --partitions %d`", partitions)
	if len(none) > 0 {
		r.Problems = append(r.Problems, status.Problem{
			About: "queues", Text: fmt.Sprintf("no partition takes the events of slots %s: they wait in %s", strings.Join(none, " "), names.CommonQueue()), Cure: cure,
		})
	}
	if len(several) > 0 {
		r.Problems = append(r.Problems, status.Problem{
			About: "queues", Text: "events of slots " + strings.Join(several, " ") + " go to two queues: they may be folded twice", Cure: cure,
		})
	}
	return nil
}

// expected returns the queues that the settings and the broker's partitions stand for.
func expected(a *app.App) (queues []status.Queue, partitions int, err error) {
	names := rabbit.DefaultNames()
	partitions, err = topology.CountPartitions(a.Ctx, a.Servers.RabbitMQ, names)
	if err != nil {
		return nil, 0, app.BrokerUnreached(err)
	}
	add := func(of, holds, setup string, names ...string) {
		for _, name := range names {
			queues = append(queues, status.Queue{Name: name, Of: of, Holds: holds, Setup: setup})
		}
	}
	main, delay := []string{names.Queue}, names.RetryQueue
	if partitions > 0 {
		main, delay = []string{names.CommonQueue()}, names.RetryExchange
		for i := range partitions {
			main = append(main, names.PartitionQueue(i))
		}
	}
	delays := rabbit.RetryDelays(a.Config.Retry.Delay, a.Config.Retry.Attempts)
	const setup, setupNotify = "keyfold setup", "keyfold notify setup"
	add(status.OfProfiles, status.Events, setup, main...)
	for _, d := range delays {
		add(status.OfProfiles, status.Delayed, setup, delay(d))
	}
	add(status.OfProfiles, status.DeadLetters, setup, names.DeadLetters)
	if a.Notify.Ledger == "" {
		return queues, partitions, nil
	}
	for _, input := range broker.Inputs() {
		add(status.OfNotifications, status.Events, setupNotify, input.Queue)
		for _, d := range delays {
			add(status.OfNotifications, status.Delayed, setupNotify, input.RetryQueue(d))
		}
	}
	for _, channel := range notify.Channels {
		add(status.OfNotifications, status.Dispatches, setupNotify, broker.DispatchQueue(channel))
	}
	add(status.OfNotifications, status.DeadLetters, setupNotify, broker.Bulk().DeadLetters, broker.Deliveries().DeadLetters)
	return queues, partitions, nil
}

// otherDelays returns the queues of delays that other settings stand for: messages may
// still wait in them.
func otherDelays(known []status.Queue, managed map[string]managedQueue) (more []status.Queue) {
	for name := range managed {
		isKnown := slices.ContainsFunc(known, func(q status.Queue) bool { return q.Name == name })
		if main, _, found := strings.Cut(name, ".retry."); found && !isKnown {
			for _, q := range known {
				if q.Holds == status.Events && q.Name == strings.TrimSuffix(main, ".slots") {
					more = append(more, status.Queue{Name: name, Of: q.Of, Holds: status.Delayed, Setup: q.Setup})
				}
			}
		}
	}
	slices.SortFunc(more, func(a, b status.Queue) int { return strings.Compare(a.Name, b.Name) })
	return more
}
