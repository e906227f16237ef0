package shard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// taken lists what a flush would get.
func taken(t *table[string, string], keys, items int) string {
	var text string
	windows := t.take(nil, keys, items)
	for _, w := range windows {
		text += fmt.Sprintf("%s%v%v ", w.queue.key, w.items, w.trigger)
	}
	t.finish(windows)
	return text
}

func TestTableClosesInTheOrderOfDeadlines(t *testing.T) {
	tab := newTable[string, string](testConfig())
	sec := int64(time.Second)
	tab.add("a", "1", 1, 0, false)
	for s := int64(1); s <= 12; s += 4 { // a stays busy: 1, 5, 9
		tab.add("a", "x", 1, s*sec, false)
		tab.add("b", "x", 1, (s+1)*sec, false)
	}
	if got := taken(tab, 9, 9); got != "a[1 x x x]max_size " {
		t.Fatal(got)
	}
	tab.add("c", "1", 1, 12*sec, false)
	if _, at, trigger := tab.due(); at != 15*sec || trigger != TriggerIdle {
		t.Fatalf("due at %d by %v", at, trigger)
	}
	tab.add("b", "x", 1, 14*sec, false) // full
	tab.closeDue(17*sec - 1)
	if got := taken(tab, 9, 9); got != "b[x x x x]max_size " {
		t.Fatal(got)
	}
	tab.closeDue(17 * sec)
	if got := taken(tab, 9, 9); got != "c[1]idle " {
		t.Fatal(got)
	}
	if len(tab.queues) != 0 || tab.open != 0 || tab.waiting != (usage{}) {
		t.Fatalf("left over: %d queues, %d open, %+v", len(tab.queues), tab.open, tab.waiting)
	}
}

// Windows that are due soon after one that is due close with it, to share its flush. None
// closes earlier than that, and none before one is due.
//
// Promise(batching/flushes): Windows that are due soon close with one that is due, and share its
// flush.
func TestWindowsDueSoonCloseWithOneThatIsDue(t *testing.T) {
	for _, c := range []struct {
		clock Clock
		want  string // after 5 s
	}{{WallClock, "a[1]idle b[1]idle "}, {EventClock, "a[1]idle "}} {
		config := testConfig()
		config.Early, config.Clock = 500*time.Millisecond, c.clock
		tab := newTable[string, string](config)
		const ms = int64(time.Millisecond)
		tab.add("a", "1", 1, 0, false)
		tab.add("b", "1", 1, 500*ms, false)
		tab.add("c", "1", 1, 500*ms+1, false)
		due := int64(config.Window)
		tab.closeDue(due - 1)
		if got := taken(tab, 9, 9); got != "" {
			t.Fatalf("clock %d: %s closed before one was due", c.clock, got)
		}
		tab.closeDue(due)
		if got := taken(tab, 9, 9); got != c.want {
			t.Fatalf("clock %d: closed %s, want %s", c.clock, got, c.want)
		}
	}
}

// The lists' order is what makes the deadlines cheap.
func TestDeadlineListsStaySorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := testConfig()
		config.MaxSize = rapid.IntRange(1, 20).Draw(t, "size")
		tab := newTable[int32, int](config)
		var now int64
		var flying []*window[int32, int]
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			now += int64(rapid.IntRange(0, 3).Draw(t, "seconds")) * int64(time.Second)
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				flying = tab.take(flying, 3, 10)
			case 1:
				tab.finish(flying)
				flying = nil
			case 2:
				tab.closeOldest(usage{items: int64(rapid.IntRange(0, 10).Draw(t, "keep"))}, TriggerPressure)
			default:
				tab.closeDue(now)
				tab.add(int32(rapid.IntRange(0, 8).Draw(t, "key")), 0, 0, now, false)
			}
			checkLists(t, tab, now)
		}
	})
}

func checkLists(t *rapid.T, tab *table[int32, int], now int64) {
	var firsts, lasts []int64
	var waiting usage
	for w := tab.first.front; w != nil; w = w.links[byFirst].next {
		firsts = append(firsts, w.first)
		waiting = waiting.plus(w.usage())
		if w.trigger != 0 || w.last < w.first || w.last > now {
			t.Fatalf("window %+v at %d", w, now)
		}
	}
	for w := tab.last.front; w != nil; w = w.links[byLast].next {
		lasts = append(lasts, w.last)
	}
	if !slices.IsSorted(firsts) || !slices.IsSorted(lasts) || len(firsts) != len(lasts) || int64(len(lasts)) != tab.open {
		t.Fatalf("lists: %v and %v, %d open", firsts, lasts, tab.open)
	}
	if waiting != tab.waiting {
		t.Fatalf("waiting %+v, counted %+v", tab.waiting, waiting)
	}
}

func TestLetterForgetsItems(t *testing.T) {
	l := mail[int, *int]{items: []Item[int, *int]{{Value: new(int)}}, stamps: []int64{1}, clock: 1}
	l = l.emptied()
	if len(l.items) != 0 || len(l.stamps) != 0 || l.clock != 1 || l.items[:1][0].Value != nil {
		t.Fatalf("%+v", l.items[:1])
	}
}

func TestRecyclerForgetsItemsAndKeepsWithinItsLimit(t *testing.T) {
	r := slicePool[*int]{limit: 8}
	var s []*int
	for range 5 {
		s = r.append(s, new(int))
	}
	if cap(s) != 8 || r.kept != 6 { // the slices of 2 and 4 it outgrew
		t.Fatalf("cap %d, kept %d", cap(s), r.kept)
	}
	r.put(s) // 8 more would exceed the limit
	if r.kept != 6 {
		t.Fatalf("kept %d", r.kept)
	}
	again := r.get(4)
	if r.kept != 2 || len(again) != 0 || again[:4][0] != nil {
		t.Fatalf("kept %d, got %v", r.kept, again[:4])
	}
}
