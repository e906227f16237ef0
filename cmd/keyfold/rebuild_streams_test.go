package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/proof/oracle"
	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

// manyEvents are more than the ids that a profile keeps of events a rebuild folds.
const manyEvents = 4096 + 400

// viewsOf returns views of a user, of the products in turn.
func viewsOf(user int32, n int, label string, products ...int32) (bodies [][]byte) {
	at := time.Now().Add(-time.Hour)
	for i := range n {
		bodies = append(bodies, event(user, profile.ProductView, products[i%len(products)], at.Add(time.Duration(i)*time.Millisecond), fmt.Sprint(label, " ", i)))
	}
	return bodies
}

// sendToStreams posts bodies, waits until they are in their streams, and makes them old: no id
// of theirs is kept for its age.
func (s *shop) sendToStreams(t *testing.T, api *daemon, bodies [][]byte) {
	t.Helper()
	for some := range slices.Chunk(bodies, 500) {
		api.accepted(some...)
	}
	s.allSent(t)
	at := time.Now().Add(-72 * time.Hour).UTC().Format("2006-01-02 15:04:05.000")
	s.exec(t, "UPDATE user_interactions SET created_at = ?, sent_at = ?", at, at)
}

// allRead waits until the positions are at the ends of the streams.
func (s *shop) allRead(t *testing.T) {
	t.Helper()
	eventually(t, "the streams are read", func() error {
		for _, r := range listStreams(t, s.stack, s.flags()) {
			if r.Lag > 0 {
				return fmt.Errorf("%+v", r)
			}
		}
		return nil
	})
}

// has compares the profiles with the oracle's. All that was sent is settled.
func (s *shop) has(t *testing.T, o *oracle.Oracle) {
	t.Helper()
	must.OK(t, o.CheckAll(allProfiles(t, s.open(t))))
}

// readAgain has all streams read from their first offset on, and waits for it.
func (s *shop) readAgain(t *testing.T) {
	t.Helper()
	s.must(t, "streams", "rewind", "--first")
	s.allRead(t)
}

// Events that wait in the streams while their profiles are made anew are read once the worker
// comes, more of them than a profile keeps ids of, and older: each counts once, also when all
// is read again.
//
// Promise(rebuild/streams): After a rebuild whatever the streams still bring is known, however many
// events wait there, for however long, and however often they are read.
func TestRebuildKnowsWhatWaitsInTheStreams(t *testing.T) {
	t.Parallel()
	s, _ := newStreamShop(t, outbox.SQLite, rabbittest.Shared(t))
	api := s.ingest(t)
	bodies := sampleOf(t, 300)
	s.sendToStreams(t, api, bodies)
	d := s.work(t, s.flags(quick)...).ready()
	s.settled(t, s.expect(t, bodies))
	d.stop()
	unread := append(viewsOf(1, manyEvents, "unread", 1, 2, 3), viewsOf(1_000_000, manyEvents, "of a new user", 4, 5)...)
	s.sendToStreams(t, api, unread)
	o := s.expect(t, append(bodies, unread...))
	s.rebuild(t, "--all")
	s.settled(t, o)
	s.work(t, s.flags(quick)...).ready()
	s.allRead(t)
	s.has(t, o)
	s.readAgain(t)
	s.has(t, o)
	if r := s.rebuild(t, "--all"); r.Replaced != 0 {
		t.Errorf("made anew a second time: %+v", r)
	}
}

// Views of products that came later are skipped by the worker, without a mark. A rebuild folds
// them, and a second reading of the streams does not.
//
// Promise(rebuild/streams)
func TestRebuildMarksWhatWorkersSkipped(t *testing.T) {
	t.Parallel()
	s, _ := newStreamShop(t, outbox.SQLite, rabbittest.Shared(t))
	api := s.ingest(t)
	late := profile.Product{ID: 1_000_001, Name: "Late shoe", Category: "shoes"}
	bodies := append(viewsOf(1, 20, "known", 1, 2), viewsOf(2, 20, "known too", 3)...)
	bodies = append(bodies, viewsOf(1, manyEvents, "skipped", late.ID)...)
	bodies = append(bodies, viewsOf(3, manyEvents, "skipped of a user without a profile", late.ID)...)
	s.sendToStreams(t, api, bodies)
	d := s.work(t, s.flags(quick)...).ready()
	s.allRead(t)
	d.stop()
	s.products = append(s.products, late)
	s.importProducts(t)
	o := s.expect(t, bodies)
	s.rebuild(t, "--all")
	s.settled(t, o)
	s.work(t, s.flags(quick)...).ready()
	s.readAgain(t)
	s.has(t, o)
}

// events returns how many events all profiles count.
func events(t *testing.T, store *mongodb.Store) (n int64) {
	t.Helper()
	for _, p := range allProfiles(t, store) {
		n += p.EventCount
	}
	return n
}

// withoutIDs returns the profile as if it was weeks later.
func withoutIDs(p *profile.Profile) *profile.Profile {
	old := *p
	old.Applied = profile.Applied{Floor: p.Applied.Last()}
	return &old
}

// Profiles are made anew again and again, some of them wrong and without their ids, while workers read the streams and
// positions are set back: at the end each equals the oracle.
//
// Promise(rebuild/streams)
func TestRebuildWhileStreamsAreRead(t *testing.T) {
	t.Parallel()
	s, _ := newStreamShop(t, outbox.MariaDB, rabbittest.Shared(t))
	api := s.ingest(t)
	s.work(t, s.flags("--batch-window=1")...).ready() // long enough for a rebuild to be faster
	s.work(t, s.flags("--batch-window=0.05")...).ready()
	each := 300
	if long {
		each = 1000
	}
	bodies := append(sampleOf(t, each), viewsOf(1, each, "busy", 1, 2, 3)...)
	store := s.open(t)
	runs, spoiled, replaced := 0, 0, 0
	for some := range slices.Chunk(bodies, 100) {
		api.accepted(some...)
		replaced += s.rebuild(t, "--all").Replaced
		for user := int32(1); user <= 3; user++ {
			if p, err := store.Load(t.Context(), []int32{user}); err == nil && p[0] != nil && trySpoil(t, store, withoutIDs(p[0])) {
				spoiled++
			}
		}
		if runs++; runs%4 == 0 {
			s.must(t, "streams", "rewind", "--first")
		}
	}
	if spoiled == 0 || replaced == 0 {
		t.Errorf("%d profiles spoiled, %d replaced: the test proves nothing", spoiled, replaced)
	}
	s.allSent(t)
	o := s.expect(t, bodies)
	s.allRead(t)
	if n := events(t, store); n != int64(o.Folded) {
		t.Fatalf("%d events are in profiles, want %d", n, o.Folded)
	}
	s.rebuild(t, "--all") // what was spoiled last
	s.readAgain(t)
	s.has(t, o)
	if r := s.rebuild(t, "--all"); r.Replaced != 0 {
		t.Errorf("something was left: %+v", r)
	}
	t.Logf("%d runs, %d profiles spoiled, %d replaced", runs, spoiled, replaced)
}

// Events that others published are in the streams and not in the history. Those to be read yet
// are left to the worker. Those that the profile has are missed, and the rebuild is refused,
// also where as many of the history wait in the stream.
//
// Promise(rebuild/streams)
func TestRebuildOfAUserOfSeveralPublishers(t *testing.T) {
	t.Parallel()
	s, _ := newStreamShop(t, outbox.SQLite, rabbittest.Shared(t))
	api := s.ingest(t)
	known, others := viewsOf(7, 30, "stored", 1, 2), viewsOf(7, 10, "published by others", 3)
	s.sendToStreams(t, api, known)
	d := s.work(t, s.flags(quick)...).ready()
	s.settled(t, s.expect(t, known))
	d.stop()
	s.publishAs(t, rabbit.DefaultNames().StreamMessage, others...)
	later := viewsOf(7, 5, "stored later", 4)
	s.sendToStreams(t, api, later)
	bodies := slices.Concat(known, others, later)
	s.must(t, "user", "rebuild", "7")
	d = s.work(t, s.flags(quick)...).ready()
	s.allRead(t)
	s.has(t, s.expect(t, bodies))
	s.readAgain(t)
	s.has(t, s.expect(t, bodies))
	d.stop()

	store := s.open(t)
	p := *withoutIDs(stored(t, store, 7))
	p.Version++
	must.OK(t, store.Swap(t.Context(), []*profile.Profile{&p})...)
	unread := viewsOf(7, 20, "unread", 5)
	s.sendToStreams(t, api, unread)
	code, _, errs := s.run(t, "user", "rebuild", "7")
	if code != cli.ExitFailure || !strings.Contains(errs, "published past the database") {
		t.Errorf("code %d: %s", code, errs)
	}
	if now := stored(t, store, 7); now.Version != p.Version {
		t.Error("the profile was replaced by one that lacks what others published")
	}
	s.work(t, s.flags(quick)...).ready()
	s.allRead(t)
	s.has(t, s.expect(t, append(bodies, unread...)))
}
