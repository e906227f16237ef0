package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/proof/oracle"

	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/vector"
)

// sorted returns bodies in folding order, in which a history is read.
func sorted(t *testing.T, bodies [][]byte) [][]byte {
	t.Helper()
	events := make([]profile.Event, len(bodies))
	order := make([]int, len(bodies))
	for i, body := range bodies {
		var err error
		if events[i], err = profile.ParseEvent(body, time.Now()); err != nil {
			t.Fatal(err)
		}
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case events[a].Before(&events[b]):
			return -1
		case events[b].Before(&events[a]):
			return 1
		}
		return 0
	})
	all := make([][]byte, len(bodies))
	for i, k := range order {
		all[i] = bodies[k]
	}
	return all
}

// spoil writes another vector over a user's profile.
func spoil(t *testing.T, store *mongodb.Store, user int32) *profile.Profile {
	t.Helper()
	p := *stored(t, store, user)
	p.Vector = slices.Clone(p.Vector)
	slices.Reverse(p.Vector)
	p.Mass *= 2
	if p.History == profile.UnitMass {
		p.Mass = 1
	}
	p.Version++
	must.OK(t, store.Swap(t.Context(), []*profile.Profile{&p})[0])
	return stored(t, store, user)
}

func stored(t *testing.T, store *mongodb.Store, user int32) *profile.Profile {
	t.Helper()
	found, err := store.Load(t.Context(), []int32{user})
	if err != nil || found[0] == nil {
		t.Fatalf("user %d: %v %v", user, found, err)
	}
	return found[0]
}

// rebuilt is the command's report.
type rebuilt struct {
	Replaced int     `json:"replaced"`
	Same     int     `json:"unchanged"`
	Refused  int     `json:"refused"`
	Failed   int     `json:"failed"`
	Dropped  int     `json:"second_vectors_removed"`
	Skipped  int     `json:"skipped"`
	Compared int     `json:"compared"`
	Lowest   float64 `json:"lowest_cosine"`
	Largest  float64 `json:"largest_difference"`
	DryRun   bool    `json:"dry_run"`
	Last     int32   `json:"last_user_id"`
}

// rebuild runs the command and reads its report.
func (s *shop) rebuild(t *testing.T, args ...string) (r rebuilt) {
	t.Helper()
	out := s.must(t, append([]string{"user", "rebuild", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return r
}

// A profile that is wrong in the store is put right exactly, in both histories; a
// dry run only says how far it is off.
//
// Promise(rebuild/exact): `user rebuild` puts a damaged profile right exactly, in both histories,
// while workers fold.
func TestRebuildPutsAProfileRight(t *testing.T) {
	for _, kept := range []profile.History{profile.Mass, profile.UnitMass} {
		t.Run(string(kept), func(t *testing.T) {
			s := newShop(t, outbox.SQLite)
			s.history = kept
			s.ingest(t).accepted(sorted(t, sampleOf(t, 200))...)
			s.allSent(t)
			s.work(t, quick).ready()
			o := s.expect(t, sorted(t, s.bodies(t)))
			s.folded(t, int64(o.Folded))
			store := s.open(t)
			user := int32(1)
			wrong := spoil(t, store, user)

			r := s.rebuild(t, "1", "--dry-run")
			if r.Replaced != 1 || !r.DryRun || r.Lowest > 0.999 || r.Largest < 1e-3 {
				t.Errorf("the dry run says %+v", r)
			}
			if p := stored(t, store, user); p.Version != wrong.Version || !slices.Equal(p.Vector, wrong.Vector) {
				t.Error("the dry run changed the profile")
			}
			if out := s.must(t, "user", "rebuild", "1"); !strings.Contains(out, "user 1: replaced") || !strings.Contains(out, "cosine") {
				t.Errorf("rebuild prints %q", out)
			}
			if err := o.Check(stored(t, store, user)); err != nil {
				t.Error(err)
			}
			if r := s.rebuild(t, "1"); r.Same != 1 || r.Replaced != 0 || math.Abs(r.Lowest-1) > 1e-9 {
				t.Errorf("made anew a second time: %+v", r)
			}
			if kept == profile.UnitMass {
				return // what a worker folded in batches is not what the sorted history makes
			}
			if r := s.rebuild(t, "--all"); r.Same != len(o.Users) || r.Replaced != 0 {
				t.Errorf("all others: %+v, want %d unchanged", r, len(o.Users))
			}
		})
	}
}

// folded waits until so many events are in profiles.
func (s *stack) folded(t *testing.T, want int64) {
	t.Helper()
	store := s.open(t)
	eventually(t, "every event is folded", func() error {
		var n int64
		for _, p := range allProfiles(t, store) {
			n += p.EventCount
		}
		if n != want {
			return fmt.Errorf("%d of %d are", n, want)
		}
		return nil
	})
}

// Erased users stay erased; a history that was cleaned up is refused, with the
// cure, unless it is forced; one that refuses does not stop the others.
//
// Promise(rebuild/refused)
func TestRebuildRefuses(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	api := s.ingest(t)
	api.accepted(sampleOf(t, 300)...)
	s.allSent(t)
	s.work(t, quick).ready()
	o := s.expect(t, s.bodies(t))
	s.settled(t, o)
	store := s.open(t)
	if code, _, errs := s.run(t, "user", "forget", "1", "--yes"); code != 0 {
		t.Fatal(errs)
	}
	api.accepted(event(1, profile.ProductView, 1, time.Now().Add(-time.Minute), "after the erasure"))
	s.allSent(t)
	if code, out, errs := s.run(t, "user", "rebuild", "1"); code != cli.ExitFailure || !strings.Contains(errs, "user 1 was erased at 20") || out != "" {
		t.Errorf("an erased user: exit code %d, %q, %q", code, out, errs)
	}
	if p := stored(t, store, 1); !p.Erased() {
		t.Errorf("user 1 is back: %+v", p)
	}
	s.exec(t, "DELETE FROM user_interactions WHERE id = (SELECT MIN(id) FROM user_interactions WHERE user_id = 2)")
	before := stored(t, store, 2)
	code, _, errs := s.run(t, "user", "rebuild", "2")
	if code != cli.ExitFailure || !strings.Contains(errs, "--force") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	spoil(t, store, 3)
	r := s.rebuild(t, "--all")
	if r.Refused != 1 || r.Skipped != 1 || r.Replaced != 1 || r.Same != len(o.Users)-3 {
		t.Errorf("all: %+v of %d users", r, len(o.Users))
	}
	if err := o.Check(stored(t, store, 3)); err != nil {
		t.Error(err)
	}
	if p := stored(t, store, 2); p.Version != before.Version {
		t.Error("a refused profile was changed")
	}
	if r := s.rebuild(t, "2", "--force"); r.Replaced != 1 {
		t.Errorf("forced: %+v", r)
	}
	if p := stored(t, store, 2); p.EventCount != before.EventCount-1 {
		t.Errorf("%d events, want %d", p.EventCount, before.EventCount-1)
	}
	for _, args := range [][]string{{}, {"1", "--all"}, {"0"}, {"--", "-1"}} {
		if code, _, errs := s.run(t, append([]string{"user", "rebuild"}, args...)...); code == 0 {
			t.Errorf("rebuild %v: %s", args, errs)
		}
	}
	code, out, errs := s.run(t, "user", "rebuild", "2147483647", "-o", "json")
	if code != cli.ExitFailure || !strings.Contains(out, `"skipped":1`) || !strings.Contains(errs, "no event of user 2147483647 is in the outbox") {
		t.Errorf("a user without a history: exit code %d, %s, %s", code, out, errs)
	}
}

// Copies that wait in the queue while a profile is made anew are not folded
// again, also where workers were away for longer than ids are kept.
//
// Promise(rebuild/copies): After a rebuild copies that wait in the queue are known and not folded
// again, also after days.
func TestRebuildKnowsWhatWaitsInTheQueue(t *testing.T) {
	t.Parallel()
	for name, age := range map[string]time.Duration{"published now": 0, "published days ago": 72 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, outbox.SQLite)
			api := s.ingest(t)
			bodies := sampleOf(t, 400)
			api.accepted(bodies[:200]...)
			s.allSent(t)
			first := s.work(t, quick).ready()
			s.settled(t, s.expect(t, bodies[:200]))
			first.stop()
			api.accepted(bodies[200:]...) // nobody folds these
			s.allSent(t)
			o := s.expect(t, bodies)
			if n := s.depth(t, rabbit.DefaultNames().Queue); n != 200 {
				t.Fatalf("%d messages wait, want 200", n)
			}
			at := time.Now().Add(-age).UTC().Format("2006-01-02 15:04:05.000")
			s.exec(t, "UPDATE user_interactions SET created_at = ?, sent_at = ?", at, at)
			s.rebuild(t, "--all")
			s.settled(t, o)
			d := s.work(t, quick).ready()
			eventually(t, "the queue is read", func() error {
				if n := d.metric(`keyfold_events_total{outcome="duplicate"}`) + d.metric(`keyfold_events_total{outcome="folded"}`); n != 200 {
					return fmt.Errorf("%d events", n)
				}
				return nil
			})
			s.settled(t, o)
		})
	}
}

// Profiles of another history, then of another number of dimensions, are made anew
// under the new settings, and a worker with these goes on.
//
// Promise(rebuild/other-settings): A rebuild makes profiles of other settings anew under the new ones.
func TestRebuildCuresOtherSettings(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	api := s.ingest(t)
	bodies := sorted(t, sampleOf(t, 300))
	api.accepted(bodies[:200]...)
	s.allSent(t)
	d := s.work(t, quick).ready()
	s.settled(t, s.expect(t, bodies[:200]))
	d.stop()

	s.history = profile.UnitMass
	if r := s.rebuild(t, "--all"); r.Replaced == 0 || r.Same+r.Compared != 0 {
		t.Errorf("%+v", r)
	}
	o := s.expect(t, sorted(t, s.bodies(t)))
	var err error
	if err = o.CheckAll(allProfiles(t, s.open(t))); err != nil {
		t.Error(err)
	}
	s.history = profile.Mass
	s.rebuild(t, "--all")
	other := *s
	other.more = []string{"--dimensions=32"}
	if code, _, errs := other.run(t, "work"); code != cli.ExitFailure || !strings.Contains(errs, "keyfold user rebuild") {
		t.Errorf("a worker with other dimensions: exit code %d, %s", code, errs)
	}
	api.accepted(bodies[200:]...)
	other.importProducts(t)
	s.allSent(t)
	if r := other.rebuild(t, "--all"); r.Replaced == 0 || r.Refused+r.Skipped+r.Same != 0 {
		t.Errorf("%+v", r)
	}
	other.service(t, "work", quick).ready()
	c := profile.DefaultConfig()
	c.Dimensions, c.Model = 32, vector.HashModel
	if o, err = oracle.New(c, s.products); err != nil {
		t.Fatal(err)
	}
	for _, body := range bodies {
		o.Add(body)
	}
	s.depthIs(t, 0)
	m := mongodb.DefaultConfig()
	m.URI, m.Dimensions, m.Model = s.mongo, 32, vector.HashModel
	store, err := mongodb.Open(t.Context(), m)
	must.OK(t, err)
	defer store.Close()
	if err := o.CheckAll(allProfiles(t, store)); err != nil {
		t.Error(err)
	}
}

// depthIs waits until the queue holds so many messages that no worker has.
func (s *shop) depthIs(t *testing.T, want int) {
	t.Helper()
	eventually(t, "the queue is read", func() error {
		if n := s.depth(t, rabbit.DefaultNames().Queue); n != want {
			return fmt.Errorf("%d messages", n)
		}
		return nil
	})
}

// importProducts sets the store up for the shop's settings and imports the
// products anew.
func (s *shop) importProducts(t *testing.T) {
	t.Helper()
	s.must(t, "setup")
	var lines strings.Builder
	for _, p := range s.products {
		fmt.Fprintf(&lines, "{\"product_id\":%d,\"product_name\":%q,\"category\":%q}\n", p.ID, p.Name, p.Category)
	}
	file := filepath.Join(t.TempDir(), "products.ndjson")
	write(t, file, lines.String())
	s.must(t, "products", "import", file, "--embed")
}

// Profiles are made anew again and again, some of them wrong, while events come
// in, are relayed and folded by a worker: at the end each equals the oracle.
//
// Promise(rebuild/exact)
func TestRebuildWhileAWorkerFolds(t *testing.T) {
	s := newShop(t, outbox.MariaDB)
	api := s.ingest(t)
	s.work(t, "--batch-window=0.05").ready()
	s.work(t, "--no-batch-enabled").ready()
	bodies := sampleOf(t, 400)
	const aRun = 10 // requests that are sent beside each run
	next, done := make(chan struct{}, aRun), make(chan struct{})
	go func() {
		defer close(done)
		for from := 0; from < len(bodies); from += 8 {
			<-next
			if a, err := send(api.url(), "", bodies[from:min(from+8, len(bodies))]...); err != nil || a.Code != 202 {
				t.Errorf("%+v %v", a, err)
				return
			}
		}
	}()
	store := s.open(t)
	runs, spoiled, replaced := 0, 0, 0
	for posting := true; posting || spoiled == 0 || replaced == 0; runs++ {
		for range aRun {
			select {
			case next <- struct{}{}:
			default: // it has not sent all of the last run
			}
		}
		select {
		case <-done:
			posting = false
		default:
		}
		for user := int32(1); user <= 3; user++ {
			if p, err := store.Load(t.Context(), []int32{user}); err == nil && p[0] != nil && trySpoil(t, store, p[0]) {
				spoiled++
			}
		}
		replaced += s.rebuild(t, "--all").Replaced
	}
	s.allSent(t)
	o := s.expect(t, bodies)
	s.folded(t, int64(o.Folded))
	s.rebuild(t, "--all") // what was spoiled last
	s.settled(t, o)
	if r := s.rebuild(t, "--all"); r.Replaced != 0 {
		t.Errorf("something was left: %+v", r)
	}
	t.Logf("%d runs, %d profiles spoiled, %d replaced", runs, spoiled, replaced)
}

// trySpoil turns a profile's vector round unless a worker is faster.
func trySpoil(t *testing.T, store *mongodb.Store, old *profile.Profile) bool {
	p := *old
	p.Vector = slices.Clone(p.Vector)
	slices.Reverse(p.Vector)
	p.Version++
	return store.Swap(t.Context(), []*profile.Profile{&p})[0] == nil
}

// A user who comes back after half a year is named, with the command that helps.
func TestLongIdleProfileIsNamed(t *testing.T) {
	s := newStack(t)
	d := s.work(t, quick).ready()
	now := time.Now().Add(-time.Hour)
	for i, at := range []time.Time{now.AddDate(0, 0, -190), now} {
		s.publish(t, event(5, profile.ProductView, 1, at, fmt.Sprint("visit ", i)))
		s.folded(t, int64(i+1))
	}
	eventually(t, "the log names the user", func() error {
		for line := range strings.Lines(d.log.String()) {
			if strings.Contains(line, "`keyfold user rebuild`") && strings.Contains(line, `"user_id":5`) {
				return nil
			}
		}
		return errors.New(d.log.String())
	})
}
