package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"keyfold/internal/cli"
	"keyfold/source/outbox"
)

// Second vectors begin beside profiles that have none, are made of the whole history, are
// refused by workers of another half-life, and go where profiles are made anew without them.
//
// Promise(rebuild/other-settings)
func TestSecondVectors(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	api := s.ingest(t)
	bodies := sorted(t, sampleOf(t, 300))
	api.accepted(bodies[:200]...)
	s.allSent(t)
	d := s.work(t, quick).ready()
	before := s.expect(t, bodies[:200])
	s.settled(t, before)
	d.stop()

	s.short = time.Hour
	o := s.expect(t, bodies)
	d = s.work(t, quick).ready()
	api.accepted(bodies[200:]...)
	s.folded(t, int64(o.Folded))
	begun := 0
	for user, p := range allProfiles(t, s.open(t)) {
		if p.Short.Vector != nil && before.Users[user] != nil {
			begun++
		}
	}
	if n := d.metric("keyfold_short_vectors_begun_total"); n == 0 || n < int64(begun) {
		t.Errorf("%d second vectors were counted that began beside a profile, the store has %d", n, begun)
	}
	if r := s.rebuild(t, "--all"); r.Replaced == 0 || r.Refused+r.Failed+r.Dropped != 0 {
		t.Errorf("made of the whole history: %+v", r)
	}
	if err := o.CheckAll(allProfiles(t, s.open(t))); err != nil {
		t.Error(err)
	}
	for user := range o.Users {
		out := s.must(t, "user", "show", strconv.Itoa(int(user)), "--mix", "0.5")
		if !strings.Contains(out, "second vector: half-life 1h0m0s") || !strings.Contains(out, "0.5 x the second vector + 0.5 x the first") {
			t.Errorf("shown as %s", out)
		}
		break
	}
	if out := s.must(t, "user", "export", "-"); strings.Count(out, `"embedding_short":[`) != len(o.Users) {
		t.Errorf("%d users, exported as %.300s", len(o.Users), out)
	}
	d.stop()

	s.short = 0
	if code, _, errs := s.run(t, "work"); code != cli.ExitFailure || !strings.Contains(errs, "EMBEDDING_SHORT_HALF_LIFE=1h0m0s") {
		t.Errorf("a worker without second vectors: exit code %d, %s", code, errs)
	}
	if r := s.rebuild(t, "--all"); r.Dropped != len(o.Users) {
		t.Errorf("made anew without: %+v", r)
	}
	if err := s.expect(t, bodies).CheckAll(allProfiles(t, s.open(t))); err != nil {
		t.Error(err)
	}
	s.work(t, quick).ready()
	if out := s.must(t, "user", "export", "-"); strings.Contains(out, "short") {
		t.Errorf("exported as %.300s", out)
	}
	if code, _, errs := s.run(t, "user", "show", "1", "--mix", "2"); code != cli.ExitUsage || !strings.Contains(errs, "--mix must be between 0 and 1") {
		t.Errorf("a mix of 2: exit code %d, %s", code, errs)
	}
}
