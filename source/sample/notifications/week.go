package notifications

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Week is what services posted, and to whom.
type Week struct {
	Events []Event // by At
	Users  []User  // by ID as a number
}

// Event is one post of a notification.
type Event struct {
	Body []byte // JSON
	// At is when the post arrives: the body's timestamp, and later for a retry.
	At       engine.Millis
	ID       uuid.UUID
	User     string
	Type     notify.EventType
	Title    string
	Message  string
	Identity []string // values of order_id, thread_id and entity_id, as far as present
	Key      string   // dedupe_key
	Label    Label
}

// Kind says what an event is to the user's earlier ones of its type.
type Kind uint8

// The kinds of labels.
const (
	Original      Kind = iota // nothing like it came within 24 hours
	Distinct                  // same template, another thing: another order, product, amount
	Retry                     // same event_id, same bytes
	Copy                      // same thing, same texts, new event_id
	Reworded                  // same thing in other words
	kindsOfLabels = iota
)

// String returns the kind's name.
func (k Kind) String() string {
	return [kindsOfLabels]string{"original", "distinct", "retry", "copy", "reworded"}[k]
}

// Label is the truth about an event, as a reader would tell it.
type Label struct {
	Kind Kind
	// Thing is the event_id of the first event about the same thing: two events with
	// one Thing say the same.
	Thing uuid.UUID
	Of    uuid.UUID // the newest earlier event that it repeats, or resembles; zero of an Original
	Edit  Edit      // of a Reworded: how
	Topic string    // name of the template
}

// near are the types of which rewordings are made.
var near = [...]notify.EventType{notify.Reminder, notify.Update, notify.Promo, notify.Digest}

// Generate makes the notifications of a log.
func Generate(c Config, l Log) Week {
	t := &teller{
		config: c, log: &l,
		start: engine.MillisOf(c.Start), end: engine.MillisOf(c.Start.Add(c.Span)),
		crowd:   crowd{config: c},
		chance:  chance{rand.New(rand.NewPCG(c.Seed, 0x6e6f74696679))},
		devices: map[device]bool{},
		orders:  100_000,
	}
	all := visits(&l)
	for _, v := range all {
		t.visit(v)
	}
	t.broadcasts(all)
	t.repeat()
	slices.SortStableFunc(t.drafts, func(a, b *draft) int { return cmp.Compare(a.at, b.at) })
	return Week{Events: t.events(), Users: t.users()}
}

// repeat adds drafts that say what another says, in the same words or in others.
func (t *teller) repeat() {
	for _, d := range t.drafts {
		if t.share(t.config.Copies) {
			t.again(d, Unchanged)
		}
		if slices.Contains(near[:], services[d.kind].kind) && t.share(t.config.Reworded) {
			t.again(d, Words+Edit(t.IntN(editCount-1)))
		}
	}
}

func (t *teller) again(d *draft, e Edit) {
	copied := *d
	copied.at += t.soon(5*time.Second, 20*time.Hour)
	copied.edit, copied.roll = e, t.Uint64()
	if copied.at < t.end {
		t.drafts = append(t.drafts, &copied)
	}
}

func (t *teller) users() []User {
	all := make([]User, 0, len(t.crowd.known))
	for _, p := range t.crowd.known {
		all = append(all, p.User)
	}
	slices.SortFunc(all, func(a, b User) int {
		return cmp.Or(cmp.Compare(len(a.ID), len(b.ID)), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// events gives the drafts ids, texts and labels, and repeats some under their id.
func (t *teller) events() []Event {
	// Another day's week has other ids.
	ids := chance{rand.New(rand.NewPCG(t.config.Seed, uint64(t.start)))}
	labels := labels{}
	events := make([]Event, 0, len(t.drafts)*5/4)
	for _, d := range t.drafts {
		e := d.event(newID(ids))
		labels.add(d, &e)
		events = append(events, e)
		if t.share(t.config.Retries) {
			e.At += t.soon(500*time.Millisecond, 2*time.Hour)
			e.Label.Kind, e.Label.Of, e.Label.Edit = Retry, e.ID, Unchanged
			if e.At < t.end {
				events = append(events, e)
			}
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events
}

// newID draws a random id, UUID version 4.
func newID(c chance) (id uuid.UUID) {
	for i := range id {
		id[i] = byte(c.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}
