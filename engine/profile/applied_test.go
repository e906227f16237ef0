package profile

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"time"

	"keyfold/engine"

	"pgregory.net/rapid"
)

// appliedIDs returns n different ids, numbered from first.
func appliedIDs(first, n int) []AppliedID {
	all := make([]AppliedID, n)
	for i := range all {
		all[i] = DigestOf("message " + itoa(first+i)).ID()
	}
	return all
}

const (
	second = engine.Millis(1000)
	minute = 60 * second
	hour   = 60 * minute
)

// horizon is the default one, at which ids may go.
const horizon = 10 * minute

// writes returns the record after n writes of so many events each, step apart.
func writes(a Applied, n, events int, start, step engine.Millis, limits IDLimits) Applied {
	for i := range n {
		at := start + engine.Millis(i)*step
		a = a.With(uint64(at), appliedIDs(int(at), events), at, limits)
	}
	return a
}

// Ids go when they are older than the retention, or than the horizon where there
// are many; never the newest ones.
//
// Promise(bounds/ids): A profile keeps the newest 64 ids and all younger than 10 minutes up to
// 262,144; of more than 4,096 the older ones go.
// Figure: 20,000 ids in 41 writes: 157 KB
func TestAppliedRetention(t *testing.T) {
	limits := DefaultIDLimits()
	old := writes(Applied{}, 20, 5, hour, minute, limits)
	a := old.With(1, appliedIDs(0, 60), 25*hour, limits)
	if len(a.IDs) != 160 || a.Floor != 0 {
		t.Errorf("ids of exactly the retention's age were dropped: %d left, floor %d", len(a.IDs), a.Floor)
	}
	a = old.With(1, appliedIDs(0, 60), 25*hour+1, limits)
	if len(a.IDs) != 155 || a.Floor != hour+minute || a.Groups[0].At != hour+minute {
		t.Errorf("past the retention: %d ids and floor %d, want 155 and %d", len(a.IDs), a.Floor, hour+minute)
	}
	if len(old.IDs) != 100 || old.Floor != 0 {
		t.Error("With changed its receiver")
	}
	if a = old.With(1, appliedIDs(0, 1), 48*hour, limits); len(a.IDs) != 66 {
		t.Errorf("%d ids are left, want the fewest whole groups with %d", len(a.IDs), limits.Min)
	}

	limits.Keep = 200
	full := writes(Applied{}, 11, 100, hour, minute, limits)
	if len(full.IDs) != 1100-100 || full.Floor != hour+minute || full.Groups[0].At != hour+minute {
		t.Errorf("over the cap: %d ids, floor %d", len(full.IDs), full.Floor)
	}
}

// No id younger than the horizon is dropped, however many come: they are what the
// next redelivery is told from.
//
// Promise(redelivery/flood): An event that comes again behind tens of thousands of its user's is a
// duplicate: no id younger than the horizon is dropped.
// Promise(bounds/ids)
func TestNoIDYoungerThanTheHorizonIsDropped(t *testing.T) {
	limits := DefaultIDLimits()
	a := writes(Applied{}, 40, 500, hour, 5*second, limits)
	if len(a.IDs) != 20_000 || a.Floor != 0 {
		t.Fatalf("%d of 20000 ids are there after 200 s, floor %d", len(a.IDs), a.Floor)
	}
	rapid.Check(t, func(t *rapid.T) {
		limits := IDLimits{Retention: time.Hour, Horizon: 10 * time.Minute, Min: 1, Keep: 5, Max: 1 << 18}
		type written struct {
			id AppliedID
			at engine.Millis
		}
		var a Applied
		var all []written
		now := hour
		for i := range rapid.IntRange(1, 80).Draw(t, "writes") {
			now += engine.Millis(rapid.IntRange(0, 90_000).Draw(t, "pause"))
			ids := appliedIDs(1000*i, rapid.IntRange(1, 9).Draw(t, "events"))
			a = a.With(uint64(i), ids, now, limits)
			for _, id := range ids {
				all = append(all, written{id, now})
			}
			for _, w := range all {
				there := slices.Contains(a.IDs, w.id)
				if !there && now-w.at < horizon {
					t.Fatalf("an id of %v ago was dropped", now-w.at)
				}
				if !there && a.Floor < w.at {
					t.Fatalf("an id of %v was dropped above the floor %v", w.at, a.Floor)
				}
			}
		}
	})
}

// While a user is not written its events may be waiting: a pause of hours, or a
// clock that leaps ahead for one write, ages ids by a tenth of the horizon only.
//
// Promise(redelivery/long-absence)
func TestAPauseAgesIDsByAMinute(t *testing.T) {
	limits := DefaultIDLimits()
	limits.Keep, limits.Min = 1, 1
	a := writes(Applied{}, 1, 1, hour, 0, limits)
	for i := range 9 {
		a = a.With(uint64(i), appliedIDs(i, 1), hour+engine.Millis(i+1)*48*hour, limits)
		if len(a.IDs) != i+2 {
			t.Fatalf("after %d pauses of two days %d ids are left", i+1, len(a.IDs))
		}
	}
	if a = a.With(10, appliedIDs(10, 1), 1000*hour, limits); len(a.IDs) != 10 {
		t.Errorf("after ten pauses %d ids are left, want 10", len(a.IDs))
	}
}

// Records of earlier versions and of rebuilds have a floor above their oldest ids.
//
// Promise(redelivery/floor)
func TestTheFloorNeverFalls(t *testing.T) {
	limits := IDLimits{Retention: 24 * time.Hour, Horizon: 10 * time.Minute, Min: 1, Keep: 2, Max: 1000}
	a := Applied{
		Groups: []Group{{At: second, Write: 1, Count: 1}, {At: 2 * second, Write: 2, Count: 1}},
		IDs:    appliedIDs(0, 2), Floor: hour,
	}
	now := 3 * second
	for i := range 30 {
		now += minute
		before := a.Floor
		if a = a.With(uint64(i+3), appliedIDs(i+3, 1), now, limits); a.Floor < before {
			t.Fatalf("the floor fell from %d to %d", before, a.Floor)
		}
	}
}

// A record full of young ids takes no more until they are older.
//
// Promise(bounds/ids)
func TestAppliedRoom(t *testing.T) {
	limits := DefaultIDLimits()
	limits.Keep, limits.Max = 50, 1000
	a := writes(Applied{}, 10, 97, hour, second, limits)
	for now, want := range map[engine.Millis]int{
		hour + 10*second:             30,
		hour + 9*second + minute - 1: 30,
		hour + 9*second + minute*9:   64, // for one write, as the pause counts for a minute only
	} {
		if got := a.Room(now, limits); got != want {
			t.Errorf("at %d: room for %d, want %d", now, got, want)
		}
	}
	// The others of a window go on being written, and the oldest ids go.
	for i := range 12 {
		a = a.With(uint64(i), nil, hour+engine.Millis(i+1)*minute, limits)
	}
	if got := a.Room(hour+12*minute, limits); got < 950-97 {
		t.Errorf("when all are older than the horizon there is room for %d", got)
	}
	if got := (Applied{}).Room(hour, limits); got != 1000 {
		t.Errorf("an empty record has room for %d", got)
	}
}

func TestAppliedHasWrite(t *testing.T) {
	a := Applied{}.With(7, appliedIDs(0, 2), hour, DefaultIDLimits()).With(9, nil, hour, DefaultIDLimits())
	if !a.HasWrite(7) || !a.HasWrite(9) || a.HasWrite(8) {
		t.Errorf("groups %v", a.Groups)
	}
}

// Records share their arrays, and still none sees another's ids, whatever the
// order in which they grow.
func TestAppliedIsAValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			record Applied
			want   []AppliedID
		}
		versions := []version{{}}
		for i := range rapid.IntRange(1, 60).Draw(t, "writes") {
			from := versions[rapid.IntRange(max(0, len(versions)-3), len(versions)-1).Draw(t, "from")]
			added := appliedIDs(1000*i, rapid.IntRange(1, 40).Draw(t, "events"))
			versions = append(versions, version{
				record: from.record.With(uint64(i), added, engine.Millis(i), DefaultIDLimits()),
				want:   append(slices.Clone(from.want), added...),
			})
		}
		for i, v := range versions {
			if len(v.record.IDs) != len(v.want) {
				t.Fatalf("version %d has %d ids, want %d", i, len(v.record.IDs), len(v.want))
			}
			for j := range v.want {
				if v.record.IDs[j] != v.want[j] {
					t.Fatalf("version %d: id %d is another record's", i, j)
				}
			}
		}
	})
}

// Two workers that read the same profile from memory may grow it at once.
func TestAppliedGrowsConcurrently(t *testing.T) {
	shared := Applied{}.With(1, appliedIDs(0, 100), 1, DefaultIDLimits())
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			mine := shared
			for i := range 50 {
				mine = mine.With(uint64(1000*w+i), appliedIDs(1000*(w+1)+i, 1), 2, DefaultIDLimits())
			}
			for i := range 50 {
				if mine.IDs[100+i] != appliedIDs(1000*(w+1)+i, 1)[0] || mine.Groups[1+i].Write != uint64(1000*w+i) {
					t.Errorf("worker %d: id %d is another's", w, i)
				}
			}
		})
	}
	wg.Wait()
}

func TestAppliedClockSetBack(t *testing.T) {
	a := Applied{}.With(1, appliedIDs(0, 1), 1000, DefaultIDLimits()).With(2, appliedIDs(1, 1), 500, DefaultIDLimits())
	if a.Last() != 1000 {
		t.Errorf("a younger id is stamped %d, before an older one", a.Last())
	}
}

// Promise(event/past-horizon): An event that may have been folded and whose id is no longer kept is
// dead-lettered as `past_horizon`; `failed retry --force` folds it.
func TestPastHorizon(t *testing.T) {
	a := Applied{Floor: 1000}
	for _, tc := range []struct {
		firstSeen engine.Millis
		want      bool
	}{{0, false}, {999, true}, {1000, true}, {1001, false}} {
		if got := a.PastHorizon(tc.firstSeen); got != tc.want {
			t.Errorf("first seen %d under floor 1000: %v", tc.firstSeen, got)
		}
	}
	if (Applied{}).PastHorizon(5) {
		t.Error("nothing was dropped, so nothing is past the horizon")
	}
}

func TestAppliedEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Applied
		now := engine.Millis(rapid.Int64Range(0, 1<<47).Draw(t, "now"))
		for i := range rapid.IntRange(0, 5).Draw(t, "writes") {
			a = a.With(rapid.Uint64().Draw(t, "write"), appliedIDs(i*10, rapid.IntRange(0, 10).Draw(t, "events")), now+engine.Millis(i), DefaultIDLimits())
		}
		b := a.AppendStored([]byte("x"))
		if len(b)-1 != a.Size() {
			t.Fatalf("Size says %d, it is %d", a.Size(), len(b)-1)
		}
		read, err := ReadApplied(b[1:])
		if err != nil || !slices.Equal(read.IDs, a.IDs) || !slices.Equal(read.Groups, a.Groups) {
			t.Fatalf("%v became %v, %v", a, read, err)
		}
		if cut := rapid.IntRange(1, max(1, a.Size()-1)).Draw(t, "cut"); cut < a.Size() {
			if read, err := ReadApplied(b[1 : 1+cut]); err == nil && slices.Equal(read.IDs, a.IDs) && slices.Equal(read.Groups, a.Groups) {
				t.Fatal("a cut record was read as a whole one")
			}
		}
	})
}

// Records of the version before, 22 bytes an id, are read with their times.
func TestAppliedReadsTheFormBefore(t *testing.T) {
	var b []byte
	for i, at := range []engine.Millis{hour, hour, hour + 1} {
		d := DigestOf("message " + itoa(i))
		b = appendMillis(append(b, d[:]...), at)
	}
	a, err := ReadApplied(b)
	if err != nil || !slices.Equal(a.IDs, appliedIDs(0, 3)) || !slices.Equal(a.Groups, []Group{{At: hour, Count: 2}, {At: hour + 1, Count: 1}}) {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := ReadApplied(b[:len(b)-2]); err == nil {
		t.Error("a cut record was read")
	}
	if _, err := ReadApplied([]byte{9}); err == nil {
		t.Error("a form of a later version was read")
	}
}

func FuzzReadApplied(f *testing.F) {
	f.Add(writes(Applied{}, 3, 2, hour, second, DefaultIDLimits()).AppendStored(nil))
	f.Add(make([]byte, 2*oldIDBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ReadApplied(b)
		if err != nil {
			return
		}
		ids := 0
		for _, g := range a.Groups {
			ids += int(g.Count)
		}
		if ids != len(a.IDs) {
			t.Fatalf("groups of %d ids, but %d ids", ids, len(a.IDs))
		}
	})
}

// Dedup equals a plain map, whatever it was used for before.
//
// Promise(event/folded-once)
func TestDuplicatesEqualAMap(t *testing.T) {
	var s Dedup
	rapid.Check(t, func(t *rapid.T) {
		// Few different ids, crowded into few filter slots.
		id := rapid.Custom(func(t *rapid.T) (d Digest) {
			d[0] = byte(rapid.IntRange(0, 1).Draw(t, "slot")) << 2
			binary.LittleEndian.PutUint16(d[4:], uint16(rapid.IntRange(0, 40).Draw(t, "id")))
			return d
		})
		var ids []AppliedID
		for _, d := range rapid.SliceOfN(id, 0, 60).Draw(t, "applied") {
			ids = append(ids, d.ID())
		}
		applied := Applied{}.With(1, ids, 1, DefaultIDLimits())
		deliveries := make([]Delivery, rapid.IntRange(0, 40).Draw(t, "events"))
		inProfile, seen := map[AppliedID]bool{}, map[Digest]bool{}
		for _, a := range applied.IDs {
			inProfile[a] = true
		}
		wantTwice, wantFolded := make([]bool, len(deliveries)), make([]bool, len(deliveries))
		for i := range deliveries {
			d := id.Draw(t, "event")
			deliveries[i].Event.Digest = d
			wantTwice[i], wantFolded[i], seen[d] = seen[d], inProfile[d.ID()], true
		}
		twice, folded := s.Duplicates(deliveries, applied)
		if !slices.Equal(twice, wantTwice) || !slices.Equal(folded, wantFolded) {
			t.Fatalf("twice %v, want %v; folded %v, want %v", twice, wantTwice, folded, wantFolded)
		}
	})
}
