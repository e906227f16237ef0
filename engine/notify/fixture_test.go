package notify

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
	"keyfold/internal/testserver/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	second = engine.Millis(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// rulesFunc makes a function the rules of a set.
type rulesFunc func(in *Input, spent []uuid.UUID) *Action

func (f rulesFunc) Match(in *Input, spent []uuid.UUID) *Action { return f(in, spent) }

// always is a rule that matches unless it is spent.
func always(a Action) Rules {
	if a.Rule == uuid.Nil {
		a.Rule = idOf(9000)
	}
	return rulesFunc(func(_ *Input, spent []uuid.UUID) *Action {
		if slices.Contains(spent, a.Rule) {
			return nil
		}
		return &a
	})
}

// idOf returns a UUID by its number.
func idOf(n int) (id uuid.UUID) {
	id[6], id[8] = 0x40, 0x80
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

func zoneNamed(name string) *quiet.Zone {
	zone, err := quiet.LoadZone(name)
	if err != nil {
		panic(err)
	}
	return zone
}

// testPolicy has the figures of the shipped set.
func testPolicy() Policy {
	p := Policy{
		Caps:     Caps{3, 6, 20},
		Identity: []string{"order_id", "thread_id", "entity_id"},
		Score: ScorePolicy{
			Weights: Parts{Base: .3, Hint: .25, Taste: .2, Recency: .1, Calm: .15},
			Now:     .55, Later: .3, Floor: .05, Ceiling: .45,
		},
	}
	p.Types[Security] = TypePolicy{DuplicateWindow: minute, NowAtLimit: true, Base: 1, HalfLife: day}
	p.Types[Alert] = TypePolicy{DuplicateWindow: 10 * minute, Capped: true, Quiet: true, NowAtLimit: true, Base: .9, HalfLife: hour}
	p.Types[System] = TypePolicy{DuplicateWindow: day, Capped: true, Quiet: true, NowAtLimit: true, Base: .7, HalfLife: day}
	p.Types[Message] = TypePolicy{DuplicateWindow: 5 * minute, ByKeyOnly: true, Capped: true, Quiet: true, NowAtLimit: true, Base: .8, HalfLife: 2 * hour}
	p.Types[Reminder] = TypePolicy{DuplicateWindow: day, Near: true, Capped: true, Cooldown: 10 * minute, Quiet: true, NowAtLimit: true, Base: .6, HalfLife: 6 * hour}
	p.Types[Update] = TypePolicy{DuplicateWindow: day, Near: true, Capped: true, Cooldown: 30 * minute, Quiet: true, Base: .5, HalfLife: day}
	p.Types[Digest] = TypePolicy{DuplicateWindow: day, Near: true, Capped: true, Cooldown: 12 * hour, Quiet: true, Base: .4, HalfLife: day}
	p.Types[Promo] = TypePolicy{DuplicateWindow: day, Near: true, Capped: true, Cooldown: 4 * hour, Quiet: true, Base: .25, HalfLife: day}
	return p
}

// scene is what one decision reads.
type scene struct {
	set   *Set
	prefs Preferences
	state *State
	event *Notification
	turn  Turn
	score Score
	now   engine.Millis
}

// newScene is an UPDATE at 13:00 in Berlin for a user without records. Its score is
// high.
func newScene() *scene {
	s := &scene{
		set: &Set{Version: "7", Policy: testPolicy(), Local: Local{
			Zone: zoneNamed("Europe/Berlin"), Morning: 8 * 60, Digests: []quiet.Clock{9 * 60, 18 * 60},
		}},
		state: &State{},
		event: &Notification{
			ID: idOf(1), UserID: "u", Type: Update, Title: "Order 1001 shipped", Source: "orders", Hint: Critical,
			Channels: []Channel{Push, Email}, Timestamp: testNow,
		},
		now: testNow,
	}
	s.print()
	return s
}

func (s *scene) print() { s.event.Print = s.set.Policy.Print(s.event) }

func (s *scene) decide() Record {
	return Decide(s.set, &s.prefs, s.state, s.event, s.turn, s.score, s.now)
}

// sent adds sends of another type at offsets from now.
func (s *scene) sent(offsets ...engine.Millis) {
	for _, offset := range offsets {
		s.state.Sends = append(s.state.Sends, s.now+offset)
		s.state.DecidedAt = max(s.state.DecidedAt, s.now+offset)
	}
}

// marked adds a mark of another event with a text, at an offset from now.
func (s *scene) marked(t EventType, title, key string, offset engine.Millis) {
	n := Notification{ID: idOf(2), Type: t, Title: title, DedupeKey: key}
	s.state.Marks = append(s.state.Marks, Mark{EventID: n.ID, Type: t, At: s.now + offset, Print: s.set.Policy.Print(&n)})
}

// night are quiet hours from 22:00 to 07:00.
var night = quiet.Hours{{From: 22 * 60, To: 7 * 60}}

// at reads an instant of the form 2026-03-29T00:30:00Z.
func at(text string) engine.Millis {
	t, err := engine.ParseTimestamp([]byte(text))
	if err != nil {
		panic(err)
	}
	return t
}

func berlin(t *testing.T) *time.Location {
	location, err := time.LoadLocation("Europe/Berlin")
	must.OK(t, err)
	return location
}
