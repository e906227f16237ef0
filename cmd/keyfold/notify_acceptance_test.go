package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/redistest"
	"keyfold/service/notify/api"
	"keyfold/service/notify/broker"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/rule"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/postgres"
)

// The acceptance scenarios of docs/reference/promises.md, each through the commands, RabbitMQ
// and PostgreSQL. Those that other tests hold are named there.

// changedSet writes the shipped set with other figures and returns the file's name.
func changedSet(t *testing.T, changes ...string) string {
	t.Helper()
	text := string(rule.Default())
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			t.Fatalf("the shipped set has no %q", changes[i])
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	path := filepath.Join(t.TempDir(), "set.json")
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// posting is a notification to post.
func posting(user, kind, title string, more ...string) string {
	return fmt.Sprintf(`{"user_id":%q,"event_type":%q,"title":%q,"source":"test","channel":["push"],"timestamp":%q%s}`,
		user, kind, title, time.Now().UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano), strings.Join(more, ""))
}

// decided posts a notification and returns its newest decision.
func (d *daemon) decided(body string) api.Explained {
	d.t.Helper()
	return d.newest(d.waited(body).Decisions[0].EventID)
}

// waited posts a notification until the answer has its decision: a busy machine takes longer
// than a sender waits, who then posts it again.
func (d *daemon) waited(body string) (p notified) {
	d.t.Helper()
	eventually(d.t, "it is decided", func() error {
		p = notified{}
		status, header := d.call("POST", "/v1/notifications", "wait=10", body, &p)
		if applied := header.Get("Preference-Applied"); status != 200 || applied != "wait=10" || len(p.Decisions) != 1 {
			return fmt.Errorf("%d, applied %q: %+v", status, applied, p)
		}
		return nil
	})
	return p
}

// newest reads the newest decision of a notification.
func (d *daemon) newest(event uuid.UUID) api.Explained {
	d.t.Helper()
	var read struct{ Turns []api.Explained }
	if status, _ := d.call("GET", "/v1/notifications/"+event.String(), "", "", &read); status != 200 || len(read.Turns) == 0 {
		d.t.Fatalf("%d %+v", status, read)
	}
	return read.Turns[len(read.Turns)-1]
}

// notifying is a stack that is set up, its API, and a worker with these arguments.
func notifying(t *testing.T, args ...string) (*notifyStack, *daemon) {
	t.Helper()
	s := newNotifyStack(t)
	s.must(t, "setup")
	s.service(t, append([]string{"work"}, args...)...).ready()
	return s, s.service(t, "serve", "--http-addr=127.0.0.1:0").ready()
}

// P1: a notification whose answer the sender did not wait for is posted again, and once
// more: one decision, and each answer that is read is 202 with the same event_id.
//
// Promise(acceptance/p1): P1: a notification posted again after a timeout has one decision and the
// same event_id.
func TestNotifyP1PostedTwiceAfterATimeout(t *testing.T) {
	s, http := notifying(t)
	body := posting("17", "SECURITY", "Your code is 1")
	http.postUnread(body)
	var answers [2]notified
	for i := range answers {
		if status, _ := http.call("POST", "/v1/notifications", "", body, &answers[i]); status != 202 {
			t.Fatalf("%d %+v", status, answers[i])
		}
	}
	if a, b := answers[0].EventIDs, answers[1].EventIDs; len(a) != 1 || !slices.Equal(a, b) {
		t.Errorf("%v, %v", a, b)
	}
	s.queuesAreEmpty(t)
	if all := s.decisionsOf(t); len(all) != 1 || all[answers[0].EventIDs[0]] != 1 {
		t.Errorf("%v", all)
	}
}

// postUnread posts and ends the connection without reading the answer.
func (d *daemon) postUnread(body string) {
	d.t.Helper()
	at, err := url.Parse(notifyListening.FindStringSubmatch(d.log.String())[1])
	must.OK(d.t, err)
	conn, err := net.Dial("tcp", at.Host)
	must.OK(d.t, err)
	_, err = fmt.Fprintf(conn, "POST /v1/notifications HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", at.Host, len(body), body)
	if err = errors.Join(err, conn.Close()); err != nil {
		d.t.Fatal(err)
	}
}

// queuesAreEmpty waits until the workers have settled everything.
func (s *notifyStack) queuesAreEmpty(t *testing.T) {
	t.Helper()
	eventually(t, "the queues are empty", func() error {
		depths, err := rabbittest.Shared(t).Depths(s.vhost)
		if n := depths[broker.Urgent().Queue] + depths[broker.Bulk().Queue]; err != nil || n != 0 {
			return fmt.Errorf("%d messages: %w", n, err)
		}
		return nil
	})
}

// P2: ten faults in one body are all named, with field and reason, and nothing is kept.
//
// Promise(acceptance/p2): P2: ten faults in one body are named at once.
func TestNotifyP2TenFaultsAreNamed(t *testing.T) {
	_, http := notifying(t)
	var p struct {
		Errors []struct{ Field, Reason, Error string } `json:"errors"`
	}
	body := `{"event_id":"x","user_id":"","event_type":"NEWS","title":5,"channel":["fax"],"timestamp":"yesterday","priority_hint":"SOON","dedupe_key":[],"metadata":"x"}`
	if status, _ := http.call("POST", "/v1/notifications", "", body, &p); status != 400 {
		t.Fatalf("%d", status)
	}
	named := map[string]bool{}
	for _, f := range p.Errors {
		named[f.Field] = f.Reason != "" && f.Error != ""
	}
	for _, field := range []string{"event_id", "user_id", "event_type", "title", "source", "channel", "timestamp", "priority_hint", "dedupe_key", "metadata"} {
		if !named[field] {
			t.Errorf("%s is not named in %+v", field, p.Errors)
		}
	}
}

// P3: a decision is shown with outcome, reasons, rule, counters, score parts and next turn.
//
// Promise(acceptance/p3): P3: a decision shows outcome, reasons, rule, counters, score parts and next
// turn.
func TestNotifyP3ADecisionIsShown(t *testing.T) {
	_, http := notifying(t)
	scored := http.decided(posting("17", "UPDATE", "The price fell"))
	if r := scored.Record; r.Outcome != notify.Now || r.Reasons[0] != notify.ReasonScoreHigh || !r.Scored || r.Score == 0 || r.Facts.Parts.Base == 0 || r.Facts.Caps == (notify.Caps{}) || scored.Next != nil {
		t.Errorf("%+v", scored)
	}
	for i := range 2 {
		http.decided(posting("17", "MESSAGE", fmt.Sprint("Anna wrote to you ", i)))
	}
	later := http.decided(posting("17", "MESSAGE", "Anna wrote to you again"))
	r := later.Record
	if r.Outcome != notify.Later || !slices.Contains(r.Reasons, notify.ReasonCap5M) || r.Facts.RuleName == "" || r.Facts.Counts[0] != 3 {
		t.Errorf("%+v", r)
	}
	if later.Next == nil || later.Next.Turn != 1 || len(later.NotNow) == 0 {
		t.Errorf("%+v", later.Explanation)
	}
}

// P4: a preview decides and has no effect.
//
// Promise(acceptance/p4): P4: a preview has no effect.
func TestNotifyP4APreviewHasNoEffect(t *testing.T) {
	s, http := notifying(t)
	http.decided(posting("17", "UPDATE", "The price fell"))
	before := s.must(t, "user", "show", "17", "-o", "json")
	for i := range 5 {
		var p api.Preview
		if status, _ := http.call("POST", "/v1/decisions/preview", "", posting("17", "MESSAGE", fmt.Sprint("Anna wrote to you ", i)), &p); status != 200 || p.Record.Outcome != notify.Now || p.Repeat {
			t.Errorf("%d %+v", status, p.Record)
		}
	}
	if after := s.must(t, "user", "show", "17", "-o", "json"); after != before {
		t.Errorf("previewed: %s\nbefore: %s", after, before)
	}
	if all := s.decisionsOf(t); len(all) != 1 {
		t.Errorf("%v", all)
	}
}

// U1: a cap of 3 per hour and no cooldown: of five UPDATEs three are NOW, two LATER until
// the first leaves the hour, to the millisecond.
//
// Promise(acceptance/u1): U1: a cap of 3 per hour holds to the millisecond.
func TestNotifyU1CapPerHour(t *testing.T) {
	set := changedSet(t, `"caps": {"5m": 3, "1h": 6, "24h": 20}`, `"caps": {"5m": 10, "1h": 3, "24h": 20}`, `"cooldown": "30m"`, `"cooldown": "0s"`, `"now": 0.55`, `"now": 0.3`)
	_, http := notifying(t, "--notify-rules="+set)
	var all []notify.Record
	for _, title := range []string{"Sofa: the price fell", "Your review of a lamp is online", "New in carpets", "A table is back in stock", "Shelves by three designers"} {
		all = append(all, http.decided(posting("17", "UPDATE", title)).Record)
	}
	for i, r := range all {
		frees := all[max(0, i-3)].DecidedAt + engine.Millis(time.Hour.Milliseconds())
		if i < 3 && r.Outcome != notify.Now || i >= 3 && (r.Outcome != notify.Later || !slices.Equal(r.Reasons, []string{notify.ReasonCap1H}) || r.DeferUntil != frees) {
			t.Errorf("%d: %s %v until %d, want %d", i, r.Outcome, r.Reasons, r.DeferUntil, frees)
		}
	}
}

// U3: texts that differ in a number are no duplicates; a PROMO that repeats another one
// with two words changed is not sent.
//
// Promise(acceptance/u3): U3: other numbers are no duplicates, a reworded promotion is one.
func TestNotifyU3Duplicates(t *testing.T) {
	_, http := notifying(t, "--notify-rules="+changedSet(t, `"cooldown": "30m"`, `"cooldown": "0s"`, `"now": 0.55`, `"now": 0.3`))
	for _, title := range []string{"Order 1001 shipped", "Order 1002 shipped"} {
		if r := http.decided(posting("17", "UPDATE", title)).Record; r.Outcome != notify.Now {
			t.Errorf("%s: %s %v", title, r.Outcome, r.Reasons)
		}
	}
	promo := func(first, second string) notify.Record {
		return http.decided(posting("18", "PROMO", first+" summer sale on all garden furniture", `,"message":"Come and `+second+` us this weekend only."`)).Record
	}
	first, second := promo("Big", "visit"), promo("Huge", "see")
	if first.Outcome == notify.Never || second.Outcome != notify.Never || second.Reasons[0] != notify.ReasonNearDuplicate || second.DuplicateOf != first.EventID {
		t.Errorf("%s %v, then %s %v", first.Outcome, first.Reasons, second.Outcome, second.Reasons)
	}
}

// U4: nothing is dispatched at or after its expires_at, neither what expires before it is
// decided nor what expires between decision and dispatch.
//
// Promise(acceptance/u4): U4: nothing is dispatched at or after its expiry.
func TestNotifyU4NothingIsSentExpired(t *testing.T) {
	s := newNotifyStack(t)
	s.must(t, "setup")
	http := s.service(t, "serve", "--http-addr=127.0.0.1:0").ready()
	now := engine.Now()
	at := func(ago engine.Millis) string { return (now - ago).Time().UTC().Format(time.RFC3339Nano) }
	expired := fmt.Sprintf(`{"user_id":"17","event_type":"SECURITY","title":"Your code is 1","source":"test","channel":["push"],"timestamp":%q,"expires_at":%q}`,
		at(120_000), at(60_000))
	var p notified
	if status, _ := http.call("POST", "/v1/notifications", "", expired, &p); status != 202 {
		t.Fatalf("%d %+v", status, p)
	}
	// Another one is decided NOW, and its dispatch waits until it has expired.
	s.fill(t, []string{"18"}, notify.Now, now-7_200_000, 0) // the suite's events expire after an hour
	s.service(t, "work").ready()
	s.queuesAreEmpty(t)
	r := http.newest(p.EventIDs[0]).Record
	if r.Outcome != notify.Never || r.Reasons[0] != notify.ReasonExpired {
		t.Errorf("%s %v", r.Outcome, r.Reasons)
	}
	eventually(t, "the sweep has met the other one", func() error {
		l, err := postgres.Open(s.database, 1)
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		if left, err := l.Undispatched(t.Context(), engine.Now(), 10); err != nil || len(left) != 0 {
			return fmt.Errorf("%d wait: %w", len(left), err)
		}
		return nil
	})
	if n := s.depth(t, broker.DispatchQueue(notify.Push)); n != 0 {
		t.Errorf("%d are dispatched", n)
	}
}

// C4: a SECURITY event that comes behind a backlog of PROMOs is decided before it ends.
//
// Promise(acceptance/c4): C4: a SECURITY event passes a backlog of PROMOs (`go run ./bench notify
// backlog`).
func TestNotifyC4UrgentBesideABacklog(t *testing.T) {
	const backlog = 2000
	s := newNotifyStack(t)
	s.must(t, "setup")
	var lines strings.Builder
	for i := range backlog {
		lines.WriteString(posting(fmt.Sprint("user-", i), "PROMO", "Everything at half the price") + "\n")
	}
	s.must(t, "send", writeNotifications(t, lines.String()))
	http := s.service(t, "serve", "--http-addr=127.0.0.1:0").ready()
	var p notified
	if status, _ := http.call("POST", "/v1/notifications", "", posting("17", "SECURITY", "Your code is 1"), &p); status != 202 {
		t.Fatalf("%d %+v", status, p)
	}
	s.service(t, "work").ready()
	s.queuesAreEmpty(t)
	l, err := postgres.Open(s.database, 1)
	must.OK(t, err)
	defer func() { _ = l.Close() }()
	urgent, after, all := http.newest(p.EventIDs[0]).Record.DecidedAt, 0, 0
	for d, err := range l.Records(t.Context(), ledger.Filter{}) {
		must.OK(t, err)
		if all++; d.Record.DecidedAt > urgent {
			after++
		}
	}
	if all != backlog+1 || after < backlog/2 {
		t.Errorf("%d decisions, %d behind the SECURITY event", all, after)
	}
}

// C2: Redis is emptied, killed, started again and frozen while notifications are posted, a
// tenth of them twice: each is taken and decided once, whatever Redis has forgotten.
//
// Promise(acceptance/c2): C2: when Redis is killed, emptied, frozen or given an old dump the same
// events are decided, each once.
func TestNotifyC2RedisForgets(t *testing.T) {
	s := newNotifyStack(t)
	s.must(t, "setup")
	redis := redistest.Start(t)
	s.service(t, "work").ready()
	http := s.service(t, "serve", "--http-addr=127.0.0.1:0", "--notify-redis-url="+redis.URL()).ready()
	faults := []func(){
		func() {},
		func() { redis.Do(t, "FLUSHALL") },
		redis.Kill,
		func() { redis.Restart(t) },
		func() { redis.Freeze(t) },
		func() { redis.Thaw(t) },
	}
	posted := map[uuid.UUID]bool{}
	var before []string
	for round, fault := range faults {
		fault()
		for i := range 40 {
			id := uuid.New()
			body := urgentNow(id, fmt.Sprint("user-", i), fmt.Sprintf("Your code is %d%02d", round, i))
			posted[id] = true
			bodies := []string{body}
			if round > 0 && i%10 == 0 {
				bodies = append(bodies, before[i])
			}
			before = append(before, body)
			for _, b := range bodies {
				if status, _ := http.call("POST", "/v1/notifications", "", b, nil); status != 202 {
					t.Fatalf("round %d: %d", round, status)
				}
			}
		}
	}
	s.queuesAreEmpty(t)
	all := s.decisionsOf(t)
	for id, n := range all {
		if n != 1 || !posted[id] {
			t.Errorf("event %s has %d decisions", id, n)
		}
	}
	if len(all) != len(posted) {
		t.Errorf("%d of %d are decided", len(all), len(posted))
	}
	if _, page := http.get("/metrics"); !strings.Contains(page, `keyfold_notify_repeats_total{answer="new"}`) {
		t.Error("the API has not asked Redis")
	}
}
