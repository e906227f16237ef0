package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/sample"
)

// books returns a ledger of a few messages, and profiles and letters that match.
func books(t *testing.T) (*ledger, map[int32]*profile.Profile, []string) {
	t.Helper()
	traffic, err := newTraffic(seed, 600, "", 0)
	must.OK(t, err)
	l, err := newLedger(16, time.Minute, traffic.products)
	must.OK(t, err)
	for i := range traffic.messages {
		must.OK(t, l.add(&traffic.messages[i]))
	}
	profiles := map[int32]*profile.Profile{}
	for id, u := range l.oracle.Users {
		p := &profile.Profile{
			UserID: id, Version: 1, Vector: u.Vector, Mass: u.Mass, Updated: u.Updated,
			LastType: u.LastType, LastID: u.LastID, EventCount: u.Events,
			Short: profile.Short{Vector: u.Short.Vector, Mass: u.Short.Mass, HalfLife: time.Minute},
		}
		for digest := range l.events[id] {
			p.Applied.IDs = append(p.Applied.IDs, digest)
		}
		profiles[id] = p
	}
	var letters []string
	for id := range l.poison {
		letters = append(letters, id)
	}
	if len(letters) == 0 || l.oracle.Repeated == 0 || l.oracle.Missing == 0 {
		t.Fatalf("tame traffic: %d poison, %d repeated, %d missing", len(letters), l.oracle.Repeated, l.oracle.Missing)
	}
	return l, profiles, letters
}

// The judge must see each kind of difference, by its event.
func TestLedgerFinds(t *testing.T) {
	l, profiles, letters := books(t)
	if f := l.compare(profiles, append(letters, letters[0])); f.err() != nil || f.copies != 1 || f.letters != len(letters) {
		t.Fatalf("equal books: %v, %d copies", f.err(), f.copies)
	}
	var user int32
	for id, p := range profiles {
		if p.EventCount > 2 {
			user = id
		}
	}
	for name, c := range map[string]struct {
		spoil func(p *profile.Profile)
		of    func(*findings) []string
	}{
		"event lost":         {func(p *profile.Profile) { p.Applied.IDs = p.Applied.IDs[1:]; p.EventCount-- }, func(f *findings) []string { return f.lost }},
		"event twice by id":  {func(p *profile.Profile) { p.Applied.IDs = append(p.Applied.IDs, p.Applied.IDs[0]) }, func(f *findings) []string { return f.doubled }},
		"event twice":        {func(p *profile.Profile) { p.EventCount++ }, func(f *findings) []string { return f.doubled }},
		"count too low":      {func(p *profile.Profile) { p.EventCount-- }, func(f *findings) []string { return f.lost }},
		"mass":               {func(p *profile.Profile) { p.Mass += 1e-6 }, func(f *findings) []string { return f.other }},
		"last type":          {func(p *profile.Profile) { p.LastType = p.LastType%4 + 1 }, func(f *findings) []string { return f.other }},
		"last updated":       {func(p *profile.Profile) { p.Updated++ }, func(f *findings) []string { return f.other }},
		"vector":             {func(p *profile.Profile) { p.Vector[3] += 1e-7 }, func(f *findings) []string { return f.other }},
		"no second vector":   {func(p *profile.Profile) { p.Short = profile.Short{} }, func(f *findings) []string { return f.other }},
		"second mass":        {func(p *profile.Profile) { p.Short.Mass *= 2 }, func(f *findings) []string { return f.other }},
		"event from nowhere": {func(p *profile.Profile) { p.Applied.IDs[0][0] ^= 1 }, func(f *findings) []string { return f.other }},
	} {
		spoiled := *profiles[user]
		spoiled.Vector, spoiled.Applied.IDs = slices.Clone(spoiled.Vector), slices.Clone(spoiled.Applied.IDs)
		c.spoil(&spoiled)
		all := map[int32]*profile.Profile{user: &spoiled}
		for id, p := range profiles {
			if id != user {
				all[id] = p
			}
		}
		f := l.compare(all, letters)
		if found := c.of(f); len(found) == 0 || !strings.Contains(strings.Join(found, " "), fmt.Sprint("user ", user)) {
			t.Errorf("%s: not found: %v", name, f.err())
		}
	}
	delete(profiles, user)
	if f := l.compare(profiles, letters); len(f.lost) != 1 {
		t.Errorf("a lost profile: %v", f.err())
	}
}

func TestLedgerFindsLetters(t *testing.T) {
	l, profiles, letters := books(t)
	if f := l.compare(profiles, letters[1:]); len(f.lost) != 1 || !strings.Contains(f.lost[0], letters[0]) {
		t.Errorf("a lost letter: %v", f.err())
	}
	if f := l.compare(profiles, append(letters, "good")); len(f.other) != 1 || !strings.Contains(f.other[0], "good") {
		t.Errorf("a good event among the dead: %v", f.err())
	}
}

// The same seed brings the same plan and the same traffic; another does not.
func TestSeedDecides(t *testing.T) {
	plan := func(seed uint64) string { return fmt.Sprint(newPlan(seed, longMix, wholeRun, 3)) }
	if first, again := plan(1), plan(1); first != again || first == plan(2) {
		t.Error("a plan does not follow its seed")
	}
	bodies := func(seed uint64) string {
		traffic, err := newTraffic(seed, 400, "", 0)
		must.OK(t, err)
		var all strings.Builder
		for _, m := range traffic.messages {
			all.WriteString(m.ID)
			all.Write(m.Body)
		}
		return all.String()
	}
	if first, again := bodies(1), bodies(1); first != again || first == bodies(2) {
		t.Error("traffic does not follow its seed")
	}
}

// The long plan has what it must show, and each failpoint of a worker.
func TestLongPlan(t *testing.T) {
	counts, points := mix{}, map[string]bool{}
	for _, s := range newPlan(seed, longMix, wholeRun, 3) {
		counts[s.Do]++
		points[s.Point] = true
		if s.At < 0 || s.At > wholeRun || s.For > 40*1e9 {
			t.Errorf("%v at %v", s, s.At)
		}
	}
	if counts.kills() != 220 || counts[killWorker] != 200 {
		t.Errorf("%d kills, %d of workers; want 220 and 200", counts.kills(), counts[killWorker])
	}
	for _, p := range armable {
		if !points[p] {
			t.Errorf("failpoint %s is not in the plan", p)
		}
	}
}

// Duplicates are a tenth, poison a hundredth, and order is not kept.
func TestTraffic(t *testing.T) {
	traffic, err := newTraffic(seed, 6000, "", 0)
	must.OK(t, err)
	ids, poison, late := map[string]int{}, 0, 0
	newest := map[int32]engine.Millis{}
	for i := range traffic.messages {
		m := &traffic.messages[i]
		ids[m.ID]++
		e, err := profile.ParseEvent(m.Body, sample.DefaultConfig(1).End)
		if err != nil {
			poison++
			continue
		}
		if e.OccurredAt < newest[e.UserID] {
			late++
		}
		newest[e.UserID] = max(newest[e.UserID], e.OccurredAt)
	}
	n := len(traffic.messages)
	if twice := n - len(ids); twice < n/15 || twice > n/7 {
		t.Errorf("%d of %d are duplicates", twice, n)
	}
	if poison < n/200 || poison > n/50 {
		t.Errorf("%d of %d are poison", poison, n)
	}
	if late < n/20 {
		t.Errorf("%d of %d come out of order", late, n)
	}
}
