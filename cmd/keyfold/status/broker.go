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
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// Applications that queues belong to.
const (
	ofProfiles      = "profiles"
	ofNotifications = "notifications"
)

// lookAtBroker fills in queues and workers. m is nil where no management API is set.
func (r *Report) lookAtBroker(a *app.App, m *management) error {
	var managed map[string]managedQueue
	if m == nil {
		r.Notes = append(r.Notes, "RABBITMQ_MANAGEMENT_URL is not set: messages that workers hold, and workers, are not counted at the broker")
	} else if err := r.askManagement(a.Ctx, m, &managed); err != nil {
		r.add("RabbitMQ", err.Error(), "")
	}
	queues, partitions, err := expected(a)
	if err != nil {
		return err
	}
	if m != nil && managed != nil && partitions > 0 {
		if err := r.lookAtSlots(a.Ctx, m, partitions); err != nil {
			r.add("RabbitMQ", err.Error(), "")
		}
	}
	queues = append(queues, otherDelays(queues, managed)...)
	if m != nil && managed != nil {
		r.lookAtPolicies(a.Ctx, m, queues, managed)
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
		if there || q.Holds != delayed { // a delay has a queue only where it is in use
			r.Queues = append(r.Queues, q)
		}
	}
	return nil
}

func (r *Report) askManagement(ctx context.Context, m *management, managed *map[string]managedQueue) (err error) {
	if *managed, err = m.queues(ctx); err != nil {
		return err
	}
	if r.Workers, err = m.workers(ctx); err == nil && r.Workers == nil {
		r.Notes = append(r.Notes, "the broker knows no connection by name: workers are not counted there")
	}
	return err
}

// lookAtSlots adds the slots whose events go to no queue, or to two, to the problems.
func (r *Report) lookAtSlots(ctx context.Context, m *management, partitions int) error {
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
		r.Problems = append(r.Problems, Problem{
			About: "queues", Text: fmt.Sprintf("no partition takes the events of slots %s: they wait in %s", strings.Join(none, " "), names.CommonQueue()), Cure: cure,
		})
	}
	if len(several) > 0 {
		r.Problems = append(r.Problems, Problem{
			About: "queues", Text: "events of slots " + strings.Join(several, " ") + " go to two queues: they may be folded twice", Cure: cure,
		})
	}
	return nil
}

// expected returns the queues that the settings and the broker's partitions stand for.
func expected(a *app.App) (queues []Queue, partitions int, err error) {
	names := rabbit.DefaultNames()
	partitions, err = topology.CountPartitions(a.Ctx, a.Servers.RabbitMQ, names)
	if err != nil {
		return nil, 0, app.BrokerUnreached(err)
	}
	add := func(of, holds, setup string, names ...string) {
		for _, name := range names {
			queues = append(queues, Queue{Name: name, Of: of, Holds: holds, setup: setup})
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
	add(ofProfiles, events, setup, main...)
	for _, d := range delays {
		add(ofProfiles, delayed, setup, delay(d))
	}
	add(ofProfiles, deadLetters, setup, names.DeadLetters)
	if a.Notify.Ledger == "" {
		return queues, partitions, nil
	}
	for _, input := range broker.Inputs() {
		add(ofNotifications, events, setupNotify, input.Queue)
		for _, d := range delays {
			add(ofNotifications, delayed, setupNotify, input.RetryQueue(d))
		}
	}
	for _, channel := range notify.Channels {
		add(ofNotifications, dispatches, setupNotify, broker.DispatchQueue(channel))
	}
	add(ofNotifications, deadLetters, setupNotify, broker.Bulk().DeadLetters, broker.Deliveries().DeadLetters)
	return queues, partitions, nil
}

// otherDelays returns the queues of delays that other settings stand for: messages may
// still wait in them.
func otherDelays(known []Queue, managed map[string]managedQueue) (more []Queue) {
	for name := range managed {
		isKnown := slices.ContainsFunc(known, func(q Queue) bool { return q.Name == name })
		if main, _, found := strings.Cut(name, ".retry."); found && !isKnown {
			for _, q := range known {
				if q.Holds == events && q.Name == strings.TrimSuffix(main, ".slots") {
					more = append(more, Queue{Name: name, Of: q.Of, Holds: delayed, setup: q.setup})
				}
			}
		}
	}
	slices.SortFunc(more, func(a, b Queue) int { return strings.Compare(a.Name, b.Name) })
	return more
}
