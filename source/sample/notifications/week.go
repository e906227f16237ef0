package notifications

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/profile"
	"keyfold/source/sample"
)

// Config says what to generate.
type Config struct {
	Users int
	Seed  uint64
	Start time.Time // midnight in UTC; no event is earlier, and none a week later
}

// DefaultConfig returns a week of 500 users, up to this morning in UTC. It is the same
// all day, so that a second run brings the same events.
func DefaultConfig() Config {
	return Config{Users: 500, Seed: 1, Start: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -7)}
}

// Week is what services posted, and to whom.
type Week struct {
	Events []Event // by At
	Users  []User  // by ID as a number
}

// Event is one post of a notification.
type Event struct {
	Post

	Body []byte
	// At is when the post arrives: the body's timestamp, and later for one that the
	// producer posts again, under the same event_id and with the same bytes.
	At engine.Millis
	// Thing is the same number for events of a user that say the same, whatever their
	// event_id and their words.
	Thing uint64
}

// Of events, so many are posted again.
const (
	retries  = 0.1  // under the same event_id
	copies   = 0.03 // under a new event_id, with the same texts
	reworded = 0.06 // of the types with near duplicates: in other words
)

// near are the types of which rewordings are made.
var near = []notify.EventType{notify.Reminder, notify.Update, notify.Promo, notify.Digest}

const (
	visitsOfUser = 4 // on average: few users come often
	day          = engine.Millis(24 * 60 * 60 * 1000)
	week         = 7 * day
)

func hours(h float64) engine.Millis { return engine.Millis(h * 60 * 60 * 1000) }

// generator makes drafts.
type generator struct {
	*rand.Rand

	start    engine.Millis
	people   []*person
	products []profile.Product
	drafts   []*draft
	things   int
}

// Generate makes a week.
func Generate(c Config) Week {
	g := &generator{
		Rand:  rand.New(rand.NewPCG(c.Seed, 0x6e6f74696679)),
		start: engine.MillisOf(c.Start), products: sample.Products(),
	}
	for id := range c.Users {
		g.people = append(g.people, newPerson(c.Seed, id+1))
	}
	visitor := rand.NewZipf(g.Rand, 1.3, 8, uint64(c.Users-1))
	for range visitsOfUser * c.Users {
		g.visit(g.people[visitor.Uint64()])
	}
	for i := range 7 {
		for _, on := range []string{"morning", "evening"} {
			g.tell(on, g.start+engine.Millis(i)*day, g.people)
		}
	}
	g.repeat()
	slices.SortStableFunc(g.drafts, func(a, b *draft) int { return cmp.Compare(a.at, b.at) })
	// Another day's week has other ids.
	w := Week{Events: g.events(rand.New(rand.NewPCG(c.Seed, uint64(g.start))))}
	for _, p := range g.people {
		w.Users = append(w.Users, p.User)
	}
	return w
}

// visit tells what comes of a visit to the shop, at an hour at which people visit one.
func (g *generator) visit(p *person) {
	local := pick(g.Rand, []int{1, 8, 10, 12, 13, 14, 16, 17, 18, 19, 20, 20, 21, 21, 22, 23})
	within := engine.Millis(g.IntN(7))*day + hours(float64(local)+g.Float64()-p.Hours)
	at, result := g.start+(within+week)%week, "cart"
	if g.IntN(10) < 3 {
		result = "order"
	}
	for _, on := range []string{"visit", result} {
		g.tell(on, at, []*person{p})
	}
}

// tell makes the drafts of the kinds that follow something.
func (g *generator) tell(on string, at engine.Millis, people []*person) {
	g.things++
	weekday := (int(at.Time().Weekday())+6)%7 + 1
	product := &g.products[g.IntN(len(g.products))]
	for i := range data().Kinds {
		k := &data().Kinds[i]
		if k.On != on || len(k.Days) > 0 && !slices.Contains(k.Days, weekday) {
			continue
		}
		first := at + g.between(k.After)
		for _, p := range people {
			if g.IntN(100) >= k.Percent {
				continue
			}
			of := 1 + g.IntN(max(1, k.Times))
			for j, next := 0, first; j < of; j, next = j+1, next+g.between(k.Every) {
				g.add(draft{kind: k, to: p, at: next, thing: thing{g.things, j, of, product, next}})
			}
		}
	}
}

// between draws a duration.
func (g *generator) between(h [2]float64) engine.Millis { return hours(h[0] + g.Float64()*(h[1]-h[0])) }

// add keeps a draft that is within the week.
func (g *generator) add(d draft) {
	d.roll = g.IntN(1000)
	if d.at < g.start+week {
		g.drafts = append(g.drafts, &d)
	}
}

// repeat adds drafts that say what another says, in the same words or in others.
func (g *generator) repeat() {
	again := func(d draft, e edit) {
		d.at, d.edit = d.at+g.between([2]float64{0.001, 20}), e
		g.add(d)
	}
	for _, d := range g.drafts {
		if g.Float64() < copies {
			again(*d, unchanged)
		}
		if slices.Contains(near, d.kind.Type) && g.Float64() < reworded {
			again(*d, words+edit(g.IntN(int(edits-words))))
		}
	}
}

// events gives the drafts ids and texts, and posts some again.
func (g *generator) events(ids *rand.Rand) []Event {
	events := make([]Event, 0, len(g.drafts)*5/4)
	for _, d := range g.drafts {
		e := Event{Post: d.post(), At: d.at, Thing: d.same()}
		e.ID = NewID(ids)
		e.Body = e.BodyAt(e.At)
		events = append(events, e)
		if g.Float64() < retries {
			if e.At += g.between([2]float64{0.001, 2}); e.At < g.start+week {
				events = append(events, e)
			}
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return events
}

func (d *draft) post() Post {
	k := d.kind
	p := Post{
		User: d.to.ID, Type: k.Type, Source: k.Source, Hint: k.Hint, Channels: k.Channels,
		Metadata: d.metadata(), Expires: time.Duration(hours(k.Expires)) * time.Millisecond,
	}
	p.Title, p.Message = d.texts(d.edit)
	if k.Keyed == 0 || d.roll%100 < k.Keyed {
		p.Key = d.fill(k.Key)
	}
	return p
}

func (d *draft) metadata() map[string]any {
	m := map[string]any{}
	for name, text := range d.kind.Metadata {
		m[name] = d.fill(text)
	}
	if d.to.silent {
		maps.DeleteFunc(m, func(name string, _ any) bool { return slices.Contains(identity, name) })
	}
	if d.to.dated {
		m["timezone"] = d.to.Zone
	}
	if percent, isText := m["percent"].(string); isText {
		m["percent"], _ = strconv.Atoi(percent)
	}
	return m
}

// identity are the metadata that say what a notification is about.
var identity = []string{"order_id", "thread_id", "entity_id"}

// same returns the number of what a draft says.
func (d *draft) same() uint64 {
	title, message := d.texts(unchanged)
	h := fnv.New64a()
	fmt.Fprint(h, d.to.ID, d.kind.Name, title, message)
	for _, name := range identity {
		if !d.to.silent {
			fmt.Fprint(h, d.fill(d.kind.Metadata[name]))
		}
	}
	return h.Sum64()
}
