package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/service/notify/broker"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
	"keyfold/source/rabbit/topology"
)

const (
	promoID  = "11111111-1111-4111-8111-111111111111"
	alertID  = "22222222-2222-4222-8222-222222222222"
	reportID = "33333333-3333-4333-8333-333333333333"
)

func notification(id, user, kind string) string {
	return fmt.Sprintf(`{"event_id":%q,"user_id":%q,"event_type":%q,"title":"t","source":"s","channel":["push"],"timestamp":"2026-02-10T14:30:00Z"}`, id, user, kind)
}

// notifyLetters is a virtual host with dead letters of notifications: two events, one
// that is malformed, and a delivery report.
type notifyLetters struct{ vhost, dsn string }

func newNotifyLetters(t *testing.T) notifyLetters {
	t.Helper()
	t.Parallel()
	b := rabbittest.Shared(t)
	s := notifyLetters{vhost: b.VHost(t)}
	s.dsn = b.DSN(s.vhost)
	must.OK(t, broker.Setup(t.Context(), s.dsn, broker.Topology{QueueType: topology.Classic}))
	p := rabbit.NewPublisher(s.dsn, rabbit.ThisProcess("test"), "dead letters", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	defer p.Close(t.Context())
	for _, l := range []struct {
		names            rabbit.Names
		id, body, reason string
	}{
		{broker.Urgent(), alertID, notification(alertID, "anna", "ALERT"), engine.ReasonRetriesExhausted},
		{broker.Bulk(), promoID, notification(promoID, "17", "PROMO"), "event_id_of_another_user"},
		{broker.Bulk(), "", `{"event_id":"no-uuid","user_id":"bert","event_type":"NEWS"}`, "bad_event"},
		{broker.Deliveries(), reportID, fmt.Sprintf(`{"event_id":%q,"status":"DELIVERED","channel":"push","at":"2026-02-10T14:30:00Z"}`, reportID), "unknown_decision"},
	} {
		queue := deadletter.Queue{Publisher: p, Names: l.names, Host: "test-host", Describe: broker.Describe}
		letter := consume.Letter{
			Message: &rabbit.Original{Message: rabbit.Message{ID: l.id, Body: []byte(l.body)}}, Reason: l.reason,
			Failures: []rabbit.Failure{{At: engine.Now(), Err: errors.New("it failed")}},
		}
		must.OK(t, errors.Join(queue.Store(t.Context(), []consume.Letter{letter})...))
	}
	return s
}

func (s notifyLetters) dlq(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return keyfold(t.Context(), "", append([]string{"notify", "failed", "--rabbitmq-dsn=" + s.dsn}, args...)...)
}

// take takes all messages off a queue.
func (s notifyLetters) take(t *testing.T, queue string) (all []amqp.Delivery) {
	t.Helper()
	channel, err := rabbit.OpenChannel(t.Context(), s.dsn, "test", "take")
	must.OK(t, err)
	defer func() { _ = channel.Disconnect(t.Context()) }()
	for {
		d, ok, err := channel.Get(queue, true)
		must.OK(t, err)
		if !ok {
			return all
		}
		all = append(all, d)
	}
}

// letters lists, as users by id.
func (s notifyLetters) letters(t *testing.T, args ...string) map[string]any {
	t.Helper()
	code, out, errs := s.dlq(t, append([]string{"list", "-o", "json"}, args...)...)
	if code != 0 {
		t.Fatal(code, errs)
	}
	users := map[string]any{}
	for line := range strings.Lines(out) {
		var l struct {
			ID   string `json:"id"`
			User any    `json:"user_id"`
		}
		must.OK(t, json.Unmarshal([]byte(line), &l))
		users[l.ID] = l.User
	}
	return users
}

// The dead letters of events are found by names, types and ids, and those of delivery
// reports apart from them.
//
// Promise(dispatch/letters)
func TestNotifyDlqLists(t *testing.T) {
	s := newNotifyLetters(t)
	if all := s.letters(t); !maps.Equal(all, map[string]any{alertID: "anna", promoID: "17", "no-uuid": "bert"}) {
		t.Errorf("%v", all)
	}
	for flag, want := range map[string]string{
		"--user=anna": alertID, "--user=17": promoID, "--type=NEWS": "no-uuid", "--error=another_user": promoID, "--queue=deliveries": reportID,
	} {
		if ids := slices.Collect(maps.Keys(s.letters(t, flag))); !slices.Equal(ids, []string{want}) {
			t.Errorf("%s: %v", flag, ids)
		}
	}
	for _, c := range [][]string{
		{"show 2222", `"user_id": "anna"`, "it failed"},
		{"show --queue=deliveries 3333", "DELIVERED", "unknown_decision"},
		{"stats", "3 dead letters", "PROMO"},
		{"list --user=carl", "keyfold notify failed stats"},
	} {
		code, out, errs := s.dlq(t, strings.Fields(c[0])...)
		for _, part := range c[1:] {
			if code != 0 || !strings.Contains(out+errs, part) {
				t.Errorf("%s: %d, no %q in %s%s", c[0], code, part, out, errs)
			}
		}
	}
	if code, _, errs := s.dlq(t, "show", "9999"); code != 1 || !strings.Contains(errs, "keyfold notify failed list") {
		t.Errorf("%d: %s", code, errs)
	}
}

// A replayed letter is the message that was published first, in the queue of its type;
// what a worker would refuse again stays, unless it is named.
//
// Promise(dispatch/letters)
func TestNotifyDlqReplays(t *testing.T) {
	s := newNotifyLetters(t)
	replay := func(args string, replayed, skipped int) {
		t.Helper()
		code, out, errs := s.dlq(t, append([]string{"retry", "-o", "json"}, strings.Fields(args)...)...)
		var done struct {
			Replayed int `json:"replayed"`
			Skipped  int `json:"skipped_malformed"`
		}
		if err := json.Unmarshal([]byte(out), &done); code != 0 || err != nil || done.Replayed != replayed || done.Skipped != skipped {
			t.Errorf("replay %s: %d %s %s", args, code, out, errs)
		}
	}
	replay("--dry-run", 2, 1)
	replay("", 2, 1)
	replay("", 0, 1)
	replay("no-uuid", 1, 0)
	replay("--queue=deliveries", 1, 0)
	for queue, ids := range map[string][]string{
		"notification_events_urgent": {alertID}, "notification_events": {promoID, ""}, "notification_deliveries": {reportID},
		"notification_events_failed": nil, "notification_deliveries_failed": nil,
	} {
		for _, m := range s.take(t, queue) {
			if len(ids) == 0 || m.MessageId != ids[0] || m.Headers[rabbit.HeaderAttempts] != int64(0) {
				t.Errorf("%s: %s, want %q", queue, m.MessageId, ids)
				continue
			}
			if id := ids[0]; id != "" && !strings.Contains(string(m.Body), id) {
				t.Errorf("%s: %s", queue, m.Body)
			}
			ids = ids[1:]
		}
		if len(ids) > 0 {
			t.Errorf("%s: %q are missing", queue, ids)
		}
	}
}

// The errors name `keyfold notify setup` where all, an exchange or a queue is missing.
func TestNotifyDlqWithoutSetup(t *testing.T) {
	for name, remove := range map[string]func(*rabbit.Channel) error{
		"all": nil,
		"exchange": func(c *rabbit.Channel) error {
			return errors.Join(c.ExchangeDelete(broker.EventsExchange, false, false), c.ExchangeDelete(broker.DeliveryExchange, false, false))
		},
		"queue": func(c *rabbit.Channel) (err error) {
			for _, n := range []rabbit.Names{broker.Urgent(), broker.Bulk(), broker.Deliveries()} {
				_, deleted := c.QueueDelete(n.Queue, false, false, false)
				err = errors.Join(err, deleted)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := notifyLetters{}
			if remove == nil {
				t.Parallel()
				b := rabbittest.Shared(t)
				s.dsn = b.DSN(b.VHost(t))
			} else {
				s = newNotifyLetters(t)
				channel, err := rabbit.OpenChannel(t.Context(), s.dsn, "test", "delete")
				must.OK(t, err)
				must.OK(t, errors.Join(remove(channel), channel.Disconnect(t.Context())))
			}
			for _, args := range []string{"retry", "retry --queue=deliveries"} {
				code, _, errs := s.dlq(t, strings.Fields(args)...)
				if code != 1 || !strings.Contains(errs, "`keyfold notify setup`") || strings.Contains(errs, "`keyfold setup`") {
					t.Errorf("%s: %d %s", args, code, errs)
				}
			}
		})
	}
}

// The answer has no count that notifications do not know.
func TestNotifyDlqReplaysWithoutHorizon(t *testing.T) {
	s := newNotifyLetters(t)
	if code, out, errs := s.dlq(t, "retry", "--dry-run", "-o", "json"); code != 0 || strings.Contains(out, "past_horizon") {
		t.Errorf("%d: %s%s", code, out, errs)
	}
}

// Promise(dispatch/letters)
func TestNotifyDlqDiscards(t *testing.T) {
	s := newNotifyLetters(t)
	for _, c := range []struct {
		args string
		left int
	}{{"--user=anna --dry-run", 3}, {"--user=anna --yes", 2}, {"--queue=deliveries --yes", 2}, {"--yes", 0}} {
		if code, out, errs := s.dlq(t, append([]string{"remove"}, strings.Fields(c.args)...)...); code != 0 || !strings.Contains(out, "dead letter") {
			t.Errorf("%s: %d %s%s", c.args, code, out, errs)
		}
		if all := s.letters(t); len(all) != c.left {
			t.Errorf("after %s: %v", c.args, all)
		}
	}
	if all := s.letters(t, "--queue=deliveries"); len(all) != 0 {
		t.Errorf("%v", all)
	}
}

// The former names work, and the help does not show them.
func TestFormerNamesOfFailed(t *testing.T) {
	s := newNotifyLetters(t)
	for args, want := range map[string]string{
		"notify dlq stats": "3 dead letters", "notify dlq replay --dry-run": "would replay 2", "notify dlq discard --user=anna --dry-run": "1 dead letter would be discarded",
	} {
		code, out, errs := keyfold(t.Context(), "", append(strings.Fields(args), "--rabbitmq-dsn="+s.dsn)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, want 0 and %q:\n%s%s", args, code, want, out, errs)
		}
	}
	for _, args := range []string{"--help", "notify --help", "failed --help", "notify failed --help"} {
		_, out, _ := keyfold(t.Context(), "", strings.Fields(args)...)
		for _, former := range []string{"dlq", "replay", "discard"} {
			if out == "" || strings.Contains(out, former) {
				t.Errorf("%s shows %s, or nothing:\n%s", args, former, out)
			}
		}
	}
}

func TestNotifyDlqUsage(t *testing.T) {
	for args, says := range map[string]string{
		"notify failed list --user=": "--user is empty", "notify failed remove": "--yes", "notify failed list --queue=other": "events",
		"notify failed retry --force": "--force", "notify failed list --rabbitmq-dsn=localhost": "RABBITMQ_DSN",
	} {
		if code, _, errs := withoutServers(t, strings.Fields(args)...); code != 2 || !strings.Contains(errs, says) {
			t.Errorf("%s: %d %s", args, code, errs)
		}
	}
}
