package quiet

import (
	"archive/zip"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// The naive form of all laws: it asks package time for the wall clock of one instant
// after another, minute by minute. Since 1972 all clocks are set at full minutes.

// shown is what the clock shows at an instant.
func shown(location *time.Location, at engine.Millis) wall {
	_, seconds := at.Time().In(location).Zone()
	return at + engine.Millis(seconds)*1000
}

// isQuiet is [Hours.Contains] of a wall clock.
func isQuiet(h Hours, w wall) bool {
	local := w.Time()
	now := Clock(local.Hour()*60 + local.Minute())
	on := func(d Days, t time.Time) bool { return d == 0 || d>>((int(t.Weekday())+6)%7+1)&1 == 1 }
	for _, s := range h {
		switch {
		case s.From < s.To:
			if s.From <= now && now < s.To && on(s.Days, local) {
				return true
			}
		case now >= s.From && on(s.Days, local), now < s.To && on(s.Days, local.AddDate(0, 0, -1)):
			return true
		}
	}
	return false
}

// passes reports whether the clock passes a time of day at an instant: it shows D+c
// or more, and a millisecond before it showed less, for some date D.
func passes(location *time.Location, at engine.Millis, clocks ...Clock) bool {
	before, now := shown(location, at-1), shown(location, at)
	for _, c := range clocks {
		for date := midnight(before) - day; date <= now; date += day {
			if before < date+c.millis() && date+c.millis() <= now {
				return true
			}
		}
	}
	return false
}

func fullHours() (all []Clock) {
	for h := range 24 {
		all = append(all, Clock(h*60))
	}
	return all
}

// zoneNames are all zones of the zone data, links too.
var zoneNames = sync.OnceValue(func() (names []string) {
	add := func(name string) {
		if zone, err := LoadZone(name); err == nil && zone != nil {
			names = append(names, name)
		}
	}
	for _, root := range sources {
		filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				name, _ := filepath.Rel(root, path)
				add(name)
			}
			return nil
		})
		if names != nil {
			return names
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip"))
	if err != nil {
		return nil
	}
	defer archive.Close()
	for _, f := range archive.File {
		if !strings.HasSuffix(f.Name, "/") {
			add(f.Name)
		}
	}
	return names
})

func zoneOf(t testing.TB, name string) *Zone {
	t.Helper()
	zone, err := LoadZone(name)
	must.OK(t, err)
	return zone
}

func millis(t testing.TB, text string) engine.Millis {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	must.OK(t, err)
	return engine.MillisOf(at)
}

// transitions returns when a zone's clock is set in 2020 to 2030.
func transitions(t testing.TB, location *time.Location) (all []engine.Millis) {
	from, to := millis(t, "2020-01-01T00:00:00Z"), millis(t, "2031-01-01T00:00:00Z")
	for ; from < to; from += look {
		if shown(location, from+look)-look == shown(location, from) {
			continue
		}
		low, high := from, from+look // the clock is set in (low, high]
		for high-low > minute {
			if middle := floor((low+high)/2, minute); shown(location, middle)-middle == shown(location, low)-low {
				low = middle
			} else {
				high = middle
			}
		}
		all = append(all, high)
	}
	return all
}

// patterns of quiet hours. Their clocks lie around the hours at which clocks are set.
var patterns = []Hours{
	{{From: 22 * 60, To: 7 * 60}},
	{{From: 2*60 + 30, To: 2*60 + 45}},
	{{From: 0, To: 1}, {From: 60, To: 2 * 60}, {From: 3 * 60, To: 3*60 + 30}},
	{{From: 2 * 60, To: 3 * 60}},
	{{From: 23 * 60, To: 0}},
	{{From: 0, To: 24 * 60, Days: 1<<6 | 1<<7}},
	{{From: 1*60 + 59, To: 2*60 + 1}, {From: 23*60 + 59, To: 1}},
	{{From: 3 * 60, To: 2 * 60, Days: 1 << 7}, {From: 12 * 60, To: 13 * 60, Days: 1<<1 | 1<<5}},
	{{From: 0, To: 24 * 60, Days: 1 << 6}, {From: 20 * 60, To: 8 * 60}},
	{{From: 21*60 + 13, To: 24 * 60}, {From: 0, To: 5*60 + 17}},
}

// Around each transition of each zone everything equals a minute-by-minute walk. Links
// and zones that set the same clocks at the same instant are walked once. KEYFOLD_SOAK
// walks all of them with all patterns.
func TestAllTransitions(t *testing.T) {
	t.Logf("zone data %s", Tzdata())
	soak := os.Getenv("KEYFOLD_SOAK") != ""
	met := map[[3]engine.Millis]bool{}
	zones, found, walks := 0, 0, 0
	for _, name := range zoneNames() {
		zone := zoneOf(t, name)
		all := transitions(t, zone.location)
		found += len(all)
		zones += min(1, len(all))
		for _, at := range all {
			key := [3]engine.Millis{at, shown(zone.location, at), shown(zone.location, at-1)}
			again := met[key]
			met[key] = true
			if !soak && (again || len(met)%every != 0) {
				continue
			}
			walks++
			some := patterns
			if !soak {
				some = []Hours{patterns[walks%len(patterns)], patterns[(walks/len(patterns)+3*walks+1)%len(patterns)]}
			}
			newWalk(zone, at).compare(t, some)
			if t.Failed() {
				t.Fatalf("%s at %v", name, at.Time())
			}
		}
	}
	t.Logf("%d zones set their clocks %d times, %d of them different, %d walked", zones, found, len(met), walks)
	if zones < 100 || walks < 60 {
		t.Errorf("only %d zones and %d walks", zones, walks)
	}
}

// walked is the time around a transition, minute by minute.
type walked struct {
	zone  *Zone
	start engine.Millis
	asked int    // questions are asked of the first minutes
	shows []wall // by minute; [0] is that of the minute before start
}

func newWalk(zone *Zone, transition engine.Millis) *walked {
	const before, after, ahead = 5 * 60, 4 * 60, 56 * 60
	w := &walked{zone: zone, start: transition - before*minute, asked: before + after}
	for i := range engine.Millis(before + ahead + 1) {
		w.shows = append(w.shows, shown(zone.location, w.start+(i-1)*minute))
	}
	return w
}

func (w *walked) at(i int) engine.Millis { return w.start + engine.Millis(i)*minute }

func (w *walked) compare(t *testing.T, patterns []Hours) {
	t.Helper()
	for i := range w.asked {
		weekday, clock := w.zone.Local(w.at(i) + 59_999)
		local := w.shows[i+1].Time()
		if weekday%7 != int(local.Weekday()) || int(clock) != local.Hour()*60+local.Minute() {
			t.Fatalf("%v: weekday %d, %v", w.at(i).Time(), weekday, clock)
		}
	}
	for _, h := range patterns {
		w.compareHours(t, h)
	}
	w.compareNext(t, func(at engine.Millis) engine.Millis { return w.zone.NextHour(at) }, fullHours()...)
	for _, clocks := range [][]Clock{{8 * 60}, {0}, {2 * 60, 3 * 60}, {2*60 + 30, 23 * 60, 24 * 60}} {
		w.compareNext(t, func(at engine.Millis) engine.Millis { return w.zone.Next(at, clocks...) }, clocks...)
	}
}

func (w *walked) compareHours(t *testing.T, h Hours) {
	t.Helper()
	n := len(w.shows) - 1
	last := w.at(n)
	end, nextEnd := last, last // of minute i; last: after the walk
	ends, nextEnds, quiet := make([]engine.Millis, n), make([]engine.Millis, n), make([]bool, n)
	for i, later := range slices.Backward(w.shows[1:]) {
		if quiet[i] = isQuiet(h, later); !quiet[i] {
			end = w.at(i)
		} else if i == n-1 || !quiet[i+1] {
			nextEnd = end
		}
		ends[i], nextEnds[i] = end, nextEnd
	}
	for i := range w.asked {
		for _, at := range []engine.Millis{w.at(i), w.at(i) + 1, w.at(i) + 59_999} {
			want, wantNext := ends[i], nextEnds[i]
			if !quiet[i] {
				want = at
			}
			got, gotNext := h.End(w.zone, at), h.NextEnd(w.zone, at)
			if h.Contains(w.zone, at) != quiet[i] || got != want && (want < last || got < last) ||
				gotNext != wantNext && (wantNext < last || gotNext < last) {
				t.Fatalf("%v at %v: quiet %v, want %v; ends %v, want %v; next end %v, want %v", h, at.Time(),
					!quiet[i], quiet[i], got.Time(), want.Time(), gotNext.Time(), wantNext.Time())
			}
		}
	}
}

func (w *walked) compareNext(t *testing.T, ask func(engine.Millis) engine.Millis, clocks ...Clock) {
	t.Helper()
	n := len(w.shows) - 1
	passed := make([]bool, n)
	for i := range n {
		for _, c := range clocks {
			before, now := w.shows[i]+minute-1, w.shows[i+1]
			date := midnight(now)
			for _, time := range []wall{date - day + c.millis(), date + c.millis()} {
				passed[i] = passed[i] || before < time && time <= now
			}
		}
	}
	next := w.at(n)
	for i := n - 1; i >= 0; i-- {
		if i < w.asked {
			for _, at := range []engine.Millis{w.at(i), w.at(i) + 1, w.at(i) + 59_999} {
				if got := ask(at); got != next && (next < w.at(n) || got < next) {
					t.Fatalf("after %v a clock of %v is passed at %v, want %v", at.Time(), clocks, got.Time(), next.Time())
				}
			}
		}
		if passed[i] {
			next = w.at(i)
		}
	}
}
