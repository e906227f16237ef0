package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
	"keyfold/source/sample"
)

// relayKills returns how often a relay is killed, and over how many rows.
func relayKills() (kills, rows int) {
	if long {
		return 60, 50_000 // each of three 20 times
	}
	return 3, 900
}

// Three relays as processes, each killed in turn with SIGKILL while rows come in:
// every row is published at least once, in the order of its user's rows, marked,
// and folded once. The short form has PostgreSQL.
//
// Promise(outbox/relay-killed): Killed relays publish every row at least once, a user's rows in their
// order, since they lock shards of users.
// Figure: 3 relays killed 20 times each over 50,000 rows: 0 out of order, 0 lost, 0 doubled
// Promise(outbox/first-attempt): After a crash between confirm and mark a row is sent again with the
// time of its first attempt, and folded once.
func TestRelayKill9(t *testing.T) {
	if long {
		t.Run(outbox.MariaDB, func(t *testing.T) { killRelays(t, newShop(t, outbox.MariaDB)) })
	}
	t.Run(outbox.PostgreSQL, func(t *testing.T) { killRelays(t, newShop(t, outbox.PostgreSQL)) })
}

func killRelays(t *testing.T, s *shop) {
	t.Helper()
	o := s.observe(t)
	api := s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready()
	s.work(t, quick).ready()
	kills, rows := relayKills()
	bodies := sampleOf(t, rows)
	type relay struct {
		*daemon
		kill func()
	}
	start := func() relay {
		d, kill := s.spawn(t, "relay")
		return relay{d, kill}
	}
	relays := []relay{start(), start(), start()}
	for _, r := range relays {
		r.ready()
	}
	sent := int64(0)
	for i := range kills {
		for from, to := rows*i/kills, rows*(i+1)/kills; from < to; from += 200 {
			api.accepted(bodies[from:min(from+200, to)]...)
		}
		victim := &relays[i%len(relays)]
		time.Sleep(rand.N(100 * time.Millisecond))
		sent += max(0, victim.metric(`keyfold_relay_rows_total{outcome="sent"}`))
		victim.kill()
		*victim = start()
		if i%len(relays) == len(relays)-1 {
			relays[0].ready() // or the machine only starts processes
		}
	}
	s.allSent(t)
	published := s.checkOrder(t, o)
	s.settled(t, s.expect(t, bodies))
	if sent == 0 {
		t.Error("no relay that was killed had sent anything: the test proves nothing")
	}
	t.Logf("%d kills, %d rows, %d messages", kills, rows, published)
}

// sampleOf returns n different events of the sample.
func sampleOf(t *testing.T, n int) [][]byte {
	t.Helper()
	c := sample.DefaultConfig(n/4 + 4)
	c.Repeats = 0
	seen := map[string]bool{}
	var bodies [][]byte
	for _, body := range sample.Events(c) {
		e, err := profile.ParseEvent(body, time.Now())
		must.OK(t, err)
		if !seen[e.MessageID] && len(bodies) < n {
			seen[e.MessageID] = true
			bodies = append(bodies, body)
		}
	}
	if len(bodies) != n {
		t.Fatalf("the sample has %d events, want %d", len(bodies), n)
	}
	return bodies
}

// checkOrder checks what was published against the table: every row is there, and
// of each user the first appearances are in the order of the rows. It returns
// how many messages there were.
func (s *shop) checkOrder(t *testing.T, o *observer) int {
	t.Helper()
	ids := s.rowIDs(t)
	seen, last, faults := map[string]bool{}, map[int32]int64{}, 0
	events := o.parsed()
	for _, e := range events {
		if seen[e.MessageID] {
			continue
		}
		seen[e.MessageID] = true
		id, stored := ids[e.MessageID]
		if !stored || id < last[e.UserID] {
			if faults++; faults <= 10 {
				t.Errorf("user %d: row %d (stored: %t) is published behind row %d", e.UserID, id, stored, last[e.UserID])
			}
		}
		last[e.UserID] = id
	}
	if len(seen) != len(ids) {
		t.Errorf("%d of %d rows were published", len(seen), len(ids))
	}
	return len(events)
}

// rowIDs returns the ids of the rows by their events'.
func (s *shop) rowIDs(t *testing.T) map[string]int64 {
	t.Helper()
	ids := map[string]int64{}
	rows, err := s.pool(t).Query("SELECT message_id, id FROM user_interactions")
	must.OK(t, err)
	defer rows.Close()
	for rows.Next() {
		var (
			message string
			id      int64
		)
		must.OK(t, rows.Scan(&message, &id))
		ids[message] = id
	}
	return ids
}
