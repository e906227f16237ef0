package engine

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// digests returns n different digests, numbered from first.
func digests(first, n int) []Digest {
	all := make([]Digest, n)
	for i := range all {
		all[i] = DigestOf("message " + itoa(first+i))
	}
	return all
}

func TestAppliedRetention(t *testing.T) {
	const hour = Millis(3600_000)
	old := Applied{}.With(digests(0, 100), hour, 24*time.Hour)

	if a := old.With(digests(100, 1), 25*hour, 24*time.Hour); len(a.IDs) != 101 || a.Floor != 0 {
		t.Errorf("ids of exactly the retention's age were dropped: %d left, floor %d", len(a.IDs), a.Floor)
	}
	a := old.With(digests(100, 1), 25*hour+1, 24*time.Hour)
	if len(a.IDs) != MinApplied || a.Floor != hour {
		t.Errorf("past the retention: %d ids and floor %d, want %d and %d", len(a.IDs), a.Floor, MinApplied, hour)
	}
	if a.IDs[0].Digest != digests(37, 1)[0] {
		t.Error("the oldest ids must go first")
	}
	if len(old.IDs) != 100 || old.Floor != 0 {
		t.Error("With changed its receiver")
	}

	full := Applied{}.With(digests(0, MaxApplied), hour, time.Hour)
	a = full.With(digests(MaxApplied, 10), 2*hour, 24*time.Hour)
	if len(a.IDs) != MaxApplied || a.Floor != hour || a.IDs[0].Digest != digests(10, 1)[0] {
		t.Errorf("over the cap: %d ids, floor %d", len(a.IDs), a.Floor)
	}
}

// Records share their arrays, and still none sees another's ids, whatever the
// order in which they grow.
func TestAppliedIsAValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			record Applied
			want   []Digest
		}
		versions := []version{{}}
		for i := range rapid.IntRange(1, 60).Draw(t, "writes") {
			from := versions[rapid.IntRange(max(0, len(versions)-3), len(versions)-1).Draw(t, "from")]
			added := digests(1000*i, rapid.IntRange(1, 40).Draw(t, "events"))
			versions = append(versions, version{
				record: from.record.With(added, Millis(i), 24*time.Hour),
				want:   append(slices.Clone(from.want), added...),
			})
		}
		for i, v := range versions {
			if len(v.record.IDs) != len(v.want) {
				t.Fatalf("version %d has %d ids, want %d", i, len(v.record.IDs), len(v.want))
			}
			for j := range v.want {
				if v.record.IDs[j].Digest != v.want[j] {
					t.Fatalf("version %d: id %d is another record's", i, j)
				}
			}
		}
	})
}

// Two workers that read the same profile from memory may grow it at once.
func TestAppliedGrowsConcurrently(t *testing.T) {
	shared := Applied{}.With(digests(0, 100), 1, 24*time.Hour)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			mine := shared
			for i := range 50 {
				mine = mine.With(digests(1000*(w+1)+i, 1), 2, 24*time.Hour)
			}
			for i := range 50 {
				if mine.IDs[100+i].Digest != digests(1000*(w+1)+i, 1)[0] {
					t.Errorf("worker %d: id %d is another's", w, i)
				}
			}
		})
	}
	wg.Wait()
}

func TestAppliedClockSetBack(t *testing.T) {
	a := Applied{}.With(digests(0, 1), 1000, time.Hour).With(digests(1, 1), 500, time.Hour)
	if a.IDs[1].At != 1000 {
		t.Errorf("a younger id is stamped %d, before an older one", a.IDs[1].At)
	}
}

func TestPastHorizon(t *testing.T) {
	a := Applied{Floor: 1000}
	for _, tc := range []struct {
		firstSeen Millis
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
		now := Millis(rapid.Int64Range(0, 1<<47).Draw(t, "now"))
		for i := range rapid.IntRange(0, 5).Draw(t, "writes") {
			a = a.With(digests(i*10, rapid.IntRange(0, 10).Draw(t, "events")), now+Millis(i), time.Hour)
		}
		b := a.AppendIDs([]byte("x"))
		if len(b)-1 != a.Size() {
			t.Fatalf("Size says %d, it is %d", a.Size(), len(b)-1)
		}
		ids, err := DecodeIDs(b[1:])
		if err != nil || len(ids) != len(a.IDs) {
			t.Fatalf("%d ids, %v", len(ids), err)
		}
		for i := range ids {
			if ids[i] != a.IDs[i] {
				t.Fatalf("id %d: %v became %v", i, a.IDs[i], ids[i])
			}
		}
	})
	if _, err := DecodeIDs(make([]byte, appliedBytes+1)); err == nil {
		t.Error("a cut record was read")
	}
}

// Screen equals a plain map, whatever it was used for before.
func TestDuplicatesEqualAMap(t *testing.T) {
	var s Screen
	rapid.Check(t, func(t *rapid.T) {
		// Few different ids, crowded into few filter slots.
		id := rapid.Custom(func(t *rapid.T) (d Digest) {
			d[0] = byte(rapid.IntRange(0, 1).Draw(t, "slot")) << 2
			binary.LittleEndian.PutUint16(d[4:], uint16(rapid.IntRange(0, 40).Draw(t, "id")))
			return d
		})
		applied := Applied{}.With(rapid.SliceOfN(id, 0, 60).Draw(t, "applied"), 1, time.Hour)
		deliveries := make([]Delivery, rapid.IntRange(0, 40).Draw(t, "events"))
		inProfile, seen := map[Digest]bool{}, map[Digest]bool{}
		for _, a := range applied.IDs {
			inProfile[a.Digest] = true
		}
		wantTwice, wantFolded := make([]bool, len(deliveries)), make([]bool, len(deliveries))
		for i := range deliveries {
			d := id.Draw(t, "event")
			deliveries[i].Event.Digest = d
			wantTwice[i], wantFolded[i], seen[d] = seen[d], inProfile[d], true
		}
		twice, folded := s.Duplicates(deliveries, applied)
		if !slices.Equal(twice, wantTwice) || !slices.Equal(folded, wantFolded) {
			t.Fatalf("twice %v, want %v; folded %v, want %v", twice, wantTwice, folded, wantFolded)
		}
	})
}
