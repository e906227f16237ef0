package notifications

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// week is a fixed one of DefaultConfig's size.
func week() Config {
	c := DefaultConfig()
	c.Start = time.Date(2026, 10, 19, 0, 0, 0, 0, time.UTC)
	return c
}

// small is a week of fewer users.
func small() Config {
	c := week()
	c.Users, c.Sessions = 60, 240
	return c
}

func generate(c Config) Week { return Generate(c, Sample(c)) }

// theWeek is what week() brings, generated once. Tests do not change it.
var theWeek = sync.OnceValue(func() Week { return generate(week()) })

func TestSameSeedSameBytes(t *testing.T) {
	c := small()
	a, b := generate(c), generate(c)
	if !slices.EqualFunc(a.Events, b.Events, func(a, b Event) bool { return bytes.Equal(a.Body, b.Body) && a.Label == b.Label && a.At == b.At }) {
		t.Error("a second run brings other events")
	}
	c.Seed++
	if other := generate(c); slices.EqualFunc(a.Events, other.Events, func(a, b Event) bool { return a.ID == b.ID }) {
		t.Error("another seed brings the same events")
	}
	c = small()
	c.Start = c.Start.AddDate(0, 0, 1)
	met := map[uuid.UUID]bool{}
	for _, e := range a.Events {
		met[e.ID] = true
	}
	for _, e := range generate(c).Events {
		if met[e.ID] {
			t.Fatalf("event_id %s is of two weeks", e.ID)
		}
	}
}

// The same bytes on every machine. A change of the generator, of its texts or of the
// sample shop changes the hash.
func TestBytes(t *testing.T) {
	hash := sha256.New()
	for _, e := range generate(small()).Events {
		fmt.Fprintf(hash, "%d %v %s\n", e.At, e.Label, e.Body)
	}
	const want = "3f4a2f2edbdb5e54c1fcddb1c7c43bab4236ee48e5576aec904c0b0b3d4f69c6"
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		t.Errorf("the hash of a small week is %s, want %s", got, want)
	}
}

func TestEventsAreInOrderAndWithinTheSpan(t *testing.T) {
	c, w := week(), theWeek()
	if n := len(w.Events); n < 12_000 || n > 22_000 {
		t.Errorf("%d events", n)
	}
	for i, e := range w.Events {
		if i > 0 && e.At < w.Events[i-1].At {
			t.Fatalf("event %d comes before the one ahead of it", i)
		}
		if at := e.At.Time(); at.Before(c.Start) || !at.Before(c.Start.Add(c.Span)) {
			t.Fatalf("event %d at %s is outside of the span", i, at)
		}
	}
}

func TestBodiesAreWhatTheySay(t *testing.T) {
	checkEvents(t, theWeek())
}

// checkEvents fails if a body differs from its event or breaks a limit.
func checkEvents(t *testing.T, w Week) {
	for _, e := range w.Events {
		var m message
		if err := json.Unmarshal(e.Body, &m); err != nil {
			t.Fatal(err)
		}
		n, err := notify.Parse(e.Body, e.At)
		if err != nil {
			t.Fatalf("%s: %v", e.Body, err)
		}
		text := m.Title + m.Message
		switch {
		case n.ID != e.ID, n.UserID != e.User, n.Type != e.Type, n.DedupeKey != e.Key, !slices.Equal(identity(n), e.Identity):
			t.Fatalf("%s\nis not %+v", e.Body, e)
		case m.EventID != e.ID.String(), m.UserID != e.User, m.Type != e.Type.String(), m.Title != e.Title, m.Message != e.Message:
			t.Fatalf("%s\nis not %+v", e.Body, e)
		case utf8.RuneCountInString(m.Title) > notify.MaxTitleRunes, utf8.RuneCountInString(m.Message) > notify.MaxMessageRunes:
			t.Fatalf("%s: too long", e.Body)
		case unfilled(text):
			t.Fatalf("%s: a slot is not filled", e.Body)
		case e.Label.Kind != Retry && m.Timestamp != stamp(e.At):
			t.Fatalf("%s: at %s", e.Body, stamp(e.At))
		}
	}
}

// identity returns the values of the metadata that say what a notification is about.
func identity(n *notify.Notification) (values []string) {
	for _, path := range []string{"order_id", "thread_id", "entity_id"} {
		if v := n.Metadata.Get(path); v.Kind == notify.String {
			values = append(values, v.Text)
		}
	}
	return values
}

// unfilled reports whether a text has a slot without a value.
func unfilled(text string) bool {
	return slices.ContainsFunc(slotNames[:], func(name string) bool { return strings.Contains(text, "{"+name+"}") })
}

func TestLabelsAreTrue(t *testing.T) {
	w := theWeek()
	byID := map[uuid.UUID]Event{}
	for _, e := range w.Events {
		first, met := byID[e.ID]
		if met != (e.Label.Kind == Retry) {
			t.Fatalf("%s met: %v, but it is labelled %v", e.ID, met, e.Label.Kind)
		}
		if met && (!bytes.Equal(first.Body, e.Body) || e.At <= first.At) {
			t.Fatalf("a retry is another event:\n%s\n%s", first.Body, e.Body)
		}
		if !met {
			byID[e.ID] = e
		}
	}
	for _, e := range w.Events {
		of, thing := byID[e.Label.Of], byID[e.Label.Thing]
		if thing.Body == nil || thing.User != e.User || thing.Type != e.Type || thing.Label.Topic != e.Label.Topic {
			t.Fatalf("%s is about what %s is about", e.Body, thing.Body)
		}
		if e.Label.Kind == Original {
			continue
		}
		if of.Body == nil || of.User != e.User || of.Label.Topic != e.Label.Topic {
			t.Fatalf("%s resembles %s", e.Body, of.Body)
		}
		same := e.Title == of.Title && e.Message == of.Message
		switch e.Label.Kind {
		case Distinct:
			if same && slices.Equal(e.Identity, of.Identity) || e.Label.Thing == of.Label.Thing {
				t.Errorf("distinct:\n%s\n%s", e.Body, of.Body)
			}
		case Reworded:
			if same || e.Label.Thing != of.Label.Thing {
				t.Errorf("reworded:\n%s\n%s", e.Body, of.Body)
			}
		case Copy:
			if !same || e.Label.Thing != of.Label.Thing {
				t.Errorf("copy:\n%s\n%s", e.Body, of.Body)
			}
		}
	}
}

// Counts of the week that is generated, which a change of the generator changes.
func TestShares(t *testing.T) {
	c, w := week(), theWeek()
	kinds, types, edits := map[Kind]int{}, map[notify.EventType]int{}, map[Edit]int{}
	for _, e := range w.Events {
		kinds[e.Label.Kind]++
		types[e.Type]++
		edits[e.Label.Edit]++
	}
	t.Logf("%d events: %v\n%v\n%v", len(w.Events), types, kinds, edits)
	for _, eventType := range notify.EventTypes {
		if types[eventType] < 100 {
			t.Errorf("%d events of type %v", types[eventType], eventType)
		}
	}
	n := float64(len(w.Events))
	for _, share := range []struct {
		what string
		got  float64
		want float64
	}{
		{"retries", float64(kinds[Retry]) / (n - float64(kinds[Retry])), c.Retries},
		{"copies", float64(kinds[Copy]) / n, c.Copies},
		{"rewordings", float64(kinds[Reworded]) / n, c.Reworded},
	} {
		if share.got < 0.6*share.want || share.got > 1.6*share.want {
			t.Errorf("%s: a share of %.3f, %.3f is configured", share.what, share.got, share.want)
		}
	}
	for e := Words; e < editCount; e++ {
		if edits[e] == 0 {
			t.Errorf("no rewording by %v", e)
		}
	}
}

func TestUsers(t *testing.T) {
	c := week()
	c.Users, c.Sessions = 20_000, 0
	people := crowd{config: c}
	zones, quiets, muted, unset := map[string]int{}, map[int]int{}, 0, 0
	for id := range int32(c.Users) {
		p := people.of(id+1, "")
		zones[p.Zone]++
		quiets[len(p.Preferences.Quiet)]++
		if slices.Contains(p.Preferences.Muted, notify.Promo) {
			muted++
		}
		switch zone := p.Preferences.Zone; {
		case zone == nil:
			unset++
		case zone.Name() != p.Zone:
			t.Fatalf("%+v", p.User)
		}
	}
	total := 0
	for i := range countries {
		total += countries[i].share
	}
	for i := range countries {
		got, want := float64(zones[countries[i].zone])/float64(c.Users), float64(countries[i].share)/float64(total)
		if got < want*0.6-0.001 || got > want*1.4+0.001 {
			t.Errorf("%s: a share of %.4f, want %.4f", countries[i].zone, got, want)
		}
	}
	t.Logf("spans of quiet hours: %v; %d mute PROMO; %d without a zone", quiets, muted, unset)
	if quiets[0] < 6000 || quiets[0] > 8500 || muted < 3000 || muted > 4200 || unset < 5000 || unset > 7000 {
		t.Errorf("%d without quiet hours, %d mute PROMO, %d without a zone", quiets[0], muted, unset)
	}
}

func TestHabits(t *testing.T) {
	if len(habits) != 40 {
		t.Errorf("%d habits", len(habits))
	}
	for i, h := range habits {
		if err := h.hours.Validate(); err != nil {
			t.Errorf("habit %d: %v", i, err)
		}
	}
}

func TestEveryLanguageHasEveryText(t *testing.T) {
	for name, l := range languages() {
		if len(l.said) < 5 || len(l.steps) != 6 || len(firstNames[name]) == 0 {
			t.Errorf("%s: %d lines of support, %d names", name, len(l.said), len(firstNames[name]))
		}
		for k := placed; k < kindCount; k++ {
			template := &l.templates[k]
			if template.title == nil || len(template.choices) < 1 {
				t.Errorf("%s: %s has %d choices", name, services[k].name, len(template.choices))
			}
			for i, n := range template.choices {
				if n < 2 {
					t.Errorf("%s: %s: choice %d has one wording", name, services[k].name, i)
				}
			}
		}
	}
	for _, c := range countries {
		if languages()[c.language] == nil {
			t.Errorf("%s: no texts in %q", c.name, c.language)
		}
	}
}

func TestFaultyTexts(t *testing.T) {
	for _, file := range []string{"placed :: a :: b", "= en\nplaced :: a", "= en\nx :: a :: b", "= en\nplaced :: {x} :: b", "= en\nplaced :: {order :: b"} {
		if _, err := readTexts(file); err == nil {
			t.Errorf("%q is accepted", file)
		}
	}
}

func BenchmarkGenerate(b *testing.B) {
	c := week()
	for b.Loop() {
		generate(c)
	}
}
