package notifications

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// fixed is a week of DefaultConfig's size.
func fixed() Config {
	c := DefaultConfig()
	c.Start = time.Date(2026, 10, 19, 0, 0, 0, 0, time.UTC)
	return c
}

// small is a week of fewer users.
func small() Config {
	c := fixed()
	c.Users = 60
	return c
}

// theWeek is what fixed() brings, generated once. Tests do not change it.
var theWeek = sync.OnceValue(func() Week { return Generate(fixed()) })

func TestSameSeedSameBytes(t *testing.T) {
	c := small()
	a, b := Generate(c), Generate(c)
	if !slices.EqualFunc(a.Events, b.Events, func(a, b Event) bool { return bytes.Equal(a.Body, b.Body) && a.Thing == b.Thing && a.At == b.At }) {
		t.Error("a second run brings other events")
	}
	c.Seed++
	if other := Generate(c); slices.EqualFunc(a.Events, other.Events, func(a, b Event) bool { return a.ID == b.ID }) {
		t.Error("another seed brings the same events")
	}
	c = small()
	c.Start = c.Start.AddDate(0, 0, 1)
	met := map[uuid.UUID]bool{}
	for _, e := range a.Events {
		met[e.ID] = true
	}
	for _, e := range Generate(c).Events {
		if met[e.ID] {
			t.Fatalf("event_id %s is of two weeks", e.ID)
		}
	}
}

// The same bytes on every machine. A change of the generator, of its texts or of the
// sample shop changes the hash.
func TestBytes(t *testing.T) {
	hash := sha256.New()
	for _, e := range Generate(small()).Events {
		fmt.Fprintf(hash, "%d %d %s\n", e.At, e.Thing, e.Body)
	}
	const want = "08c487b3a9e59fd61745752e4d537885cd31fe8a448261403df29e24f1e3a80a"
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		t.Errorf("the hash of a small week is %s, want %s", got, want)
	}
}

func TestEventsAreInOrderAndWithinTheSpan(t *testing.T) {
	start := fixed().Start
	for i, e := range theWeek().Events {
		if i > 0 && e.At < theWeek().Events[i-1].At {
			t.Fatalf("event %d comes before the one ahead of it", i)
		}
		if at := e.At.Time(); at.Before(start) || !at.Before(start.AddDate(0, 0, 7)) {
			t.Fatalf("event %d at %s is outside of the span", i, at)
		}
	}
}

// A body is within the limits, says what its event says, and has no slot without a value.
func TestBodiesAreWhatTheySay(t *testing.T) {
	for _, e := range theWeek().Events {
		n, err := notify.Parse(e.Body, e.At)
		if err != nil {
			t.Fatalf("%s: %v", e.Body, err)
		}
		if n.ID != e.ID || n.UserID != e.User || n.Type != e.Type || n.Title != e.Title || n.Message != e.Message || n.DedupeKey != e.Key ||
			strings.ContainsAny(n.Title+n.Message+n.DedupeKey, "{}[]|") {
			t.Fatalf("%s\nis not %+v", e.Body, e)
		}
	}
}

// What comes again is what came before: an event_id with the same bytes later, a copy
// with the same texts under the same Thing, a rewording in other words under the same
// Thing. Their shares are the wanted ones, but for reminders that copy another by
// themselves. Each type is there.
func TestRepeats(t *testing.T) {
	byID, byThing, byText := map[uuid.UUID]Event{}, map[uint64]Event{}, map[string]uint64{}
	types := map[notify.EventType]int{}
	var again, same, other float64
	for _, e := range theWeek().Events {
		types[e.Type]++
		if first, met := byID[e.ID]; met {
			again++
			if !bytes.Equal(first.Body, e.Body) || e.At <= first.At {
				t.Fatalf("one event_id, two events:\n%s\n%s", first.Body, e.Body)
			}
			continue
		}
		byID[e.ID] = e
		first, met := byThing[e.Thing]
		if !met {
			byThing[e.Thing], first = e, e
		} else if first.Message == e.Message && first.Title == e.Title {
			same++
		} else {
			other++
		}
		if first.User != e.User || first.Type != e.Type || first.Source != e.Source {
			t.Fatalf("one thing:\n%s\n%s", first.Body, e.Body)
		}
		text := fmt.Sprint(e.User, e.Source, e.Title, e.Message, e.Metadata["order_id"], e.Metadata["thread_id"], e.Metadata["entity_id"])
		if thing, met := byText[text]; met && thing != e.Thing {
			t.Errorf("two things in the same words: %s", e.Body)
		}
		byText[text] = e.Thing
	}
	t.Logf("%v: %.0f retries, %.0f copies, %.0f rewordings", types, again, same, other)
	for _, eventType := range notify.EventTypes {
		if types[eventType] < 100 {
			t.Errorf("%d events of type %v", types[eventType], eventType)
		}
	}
	n := float64(len(byID))
	for what, shares := range map[string][2]float64{"retries": {again / n, retries}, "copies": {same / n, copies}, "rewordings": {other / n, reworded}} {
		if got, want := shares[0], shares[1]; got < 0.6*want || got > 2.5*want {
			t.Errorf("%s: a share of %.3f, %.3f is wanted", what, got, want)
		}
	}
}

// Users are drawn by the shares of week.json, and some have set no zone.
func TestUsers(t *testing.T) {
	const n = 5000
	zones, unset := map[string]float64{}, 0
	for id := range n {
		p := newPerson(1, id+1)
		zones[p.Zone]++
		switch zone := p.Preferences.Zone; {
		case zone == nil:
			unset++
		case zone.Name() != p.Zone:
			t.Fatalf("%+v", p.User)
		}
	}
	total := 0
	for _, c := range data().Countries {
		total += c.Share
	}
	for _, c := range data().Countries {
		if got, want := zones[c.Is.Zone]/n, float64(c.Share)/float64(total); got < want*0.6 || got > want*1.4 {
			t.Errorf("%s: a share of %.4f, want %.4f", c.Is.Zone, got, want)
		}
	}
	if unset < n/5 || unset > n/3 {
		t.Errorf("%d of %d have set no zone", unset, n)
	}
	if got := draw(rand.New(rand.NewPCG(1, 1)), []weighted[int]{{0, 1}, {1, 2}, {0, 3}}); got != 2 {
		t.Errorf("a choice without a share was drawn: %d", got)
	}
}

func TestEveryLanguageHasEveryText(t *testing.T) {
	for name, l := range data().Languages {
		if len(l.Said) < 5 || len(l.Steps) != 6 || len(l.Names) == 0 || l.Date == "" {
			t.Errorf("%s: %d lines of support, %d steps, %d names, date %q", name, len(l.Said), len(l.Steps), len(l.Names), l.Date)
		}
		for _, k := range data().Kinds {
			if text := l.Texts[k.Name]; len(text) < 2 || slices.Contains(near, k.Type) && (len(text) < 3 || strings.Count(fmt.Sprint(text), "[") < 2) {
				t.Errorf("%s: %s has the text %q", name, k.Name, text)
			}
		}
	}
	for _, c := range data().Countries {
		if data().Languages[c.Is.Language] == nil {
			t.Errorf("%s: no texts in %q", c.Is.Zone, c.Is.Language)
		}
	}
}

func BenchmarkGenerate(b *testing.B) {
	for b.Loop() {
		Generate(fixed())
	}
}
