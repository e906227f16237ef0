package main

import (
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/internal/cli"
	"keyfold/service/notify/preference"
	"keyfold/sink/ledger"
	"keyfold/source/sample/notifications"
)

// sample makes the week of a run without input. A later run makes the same week
// again: it begins on the day of the first decision.
func (c *notifyRunCmd) sample(n *notifyRuntime, in *posts) error {
	config := notifications.DefaultConfig()
	config.Users = c.Sample
	first, err := firstDecisions(n)
	if err != nil {
		return err
	}
	if len(first) > 0 { // it was decided at its timestamp
		config.Start = first[0].DecidedAt.Time().Truncate(24 * time.Hour)
	}
	week := notifications.Generate(config)
	if !contains(&week, first) {
		return &cli.UsageError{Err: fmt.Errorf("%s has decisions of other notifications, or of a sample of another size, and the sample would mix with them: "+
			"name another folder with --data, or a file with --events", n.data)}
	}
	events := week.Events
	in.next = func() ([]byte, error) {
		if len(events) == 0 {
			return nil, io.EOF
		}
		body := events[0].Body
		events = events[1:]
		return body, nil
	}
	for i := range week.Users {
		in.users = append(in.users, preference.User{ID: week.Users[i].ID, Own: week.Users[i].Preferences})
	}
	in.bar = n.Progress("deciding the sample week", int64(len(events)), nil)
	return nil
}

// firstDecisions returns the oldest decisions of the folder.
func firstDecisions(n *notifyRuntime) (first []notify.Record, err error) {
	const looked = 200
	for d, err := range n.ledger.Records(n.ctx, ledger.Filter{Limit: looked, Oldest: true}) {
		if err != nil {
			return nil, err
		}
		first = append(first, d.Record)
	}
	return first, nil
}

// contains reports whether the decisions are of the week's events and their follow-ups. A week of more or
// fewer users has the same ids for other events. Decisions of an erased user name no
// user.
func contains(week *notifications.Week, all []notify.Record) bool {
	users := make(map[uuid.UUID]string, len(week.Events))
	for i := range week.Events {
		users[week.Events[i].ID] = week.Events[i].User
		for _, id := range notify.FollowIDs(week.Events[i].ID) {
			users[id] = week.Events[i].User
		}
	}
	for i := range all {
		user, ok := users[all[i].EventID]
		if !ok || all[i].UserID != "" && all[i].UserID != user {
			return false
		}
	}
	return true
}
