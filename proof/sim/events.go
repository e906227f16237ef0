package sim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"keyfold/engine/profile"
	"keyfold/proof/schedule"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

// epoch is when every schedule begins: what time it is in a synctest bubble.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// ownTypes are the event types of the model's shop, beside the four.
var ownTypes = []profile.OwnType{
	{Name: "sim_wish", Weight: 0.6},
	{Name: "sim_return", Weight: -0.8},
	{Name: "sim_question", Phrase: true, Weight: 0.2},
}

var listedTypes = func() []profile.EventType {
	types, err := profile.AddEventTypes(ownTypes)
	if err != nil {
		panic(err)
	}
	return types
}()

// event is one event of a schedule and what must become of it.
type event struct {
	user       int32
	body       []byte
	properties []byte
	digest     profile.Digest // zero for a body that is no event
	phrase     string
	fate       fateOfEvent
}

type fateOfEvent uint8

const (
	folded     fateOfEvent = iota
	missing                // its product is unknown: dropped
	poison                 // its body is refused: dead at once
	hopeless               // its phrase is never embedded: dead after all retries
	unstorable             // no document that holds it is taken: dead
)

// dead reports whether the event must end among the dead letters.
func (f fateOfEvent) dead() bool { return f >= poison }

const (
	products       = 5
	missingProduct = 77
	hopelessPhrase = "hopeless"
)

var phrases = [...]string{"red wool scarf", "trail shoes", "espresso machine", "garden chair"}

func (p *plan) drawEvents(d *schedule.RNG) {
	n := 6 + d.N(28)
	p.byBody = make(map[string]int, n)
	for i := range n {
		p.addEvent(p.drawEvent(d, i))
	}
}

func (p *plan) addEvent(e event) {
	if parsed, err := profile.ParseEvent(e.body, epoch); err == nil {
		e.digest = parsed.Digest
	} else if e.fate != poison {
		panic(fmt.Sprintf("sim: event %s: %v", e.body, err))
	}
	p.byBody[string(e.body)] = len(p.events)
	p.events = append(p.events, e)
}

// steadyUser is in every schedule.
const steadyUser = 1

// steadyEvent is one that can be folded.
func (p *plan) steadyEvent(d *schedule.RNG, i int) event {
	return event{
		user: steadyUser, properties: propertiesOf(""),
		body: fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_view","product_id":%d,"occurred_at":"2000-01-01T00:00:00Z","message_id":"event-%d"}`,
			steadyUser, 1+d.N(products), i),
	}
}

func (p *plan) drawEvent(d *schedule.RNG, i int) event {
	e := event{user: int32(1 + d.N(int(p.users)))}
	id := fmt.Sprintf("event-%d", i)
	kind := profile.EventTypes()[d.N(len(profile.EventTypes()))]
	phrase, product := "null", fmt.Sprint(1+d.N(products))
	if kind.HasPhrase() {
		e.phrase = phrases[d.N(len(phrases))]
		phrase, product = fmt.Sprintf("%q", e.phrase), "null"
	}
	// Some share an instant, to the second.
	at := epoch.Add(-d.Between(0, 100*24*time.Hour))
	if d.Chance(200) {
		at = epoch.Add(-time.Duration(d.N(3)) * 24 * time.Hour)
	}
	when := at.Format("2006-01-02T15:04:05.000Z07:00")
	switch pick := d.N(1000); {
	case pick < 30 && kind.HasPhrase():
		e.fate, e.phrase = hopeless, hopelessPhrase
		phrase = `"` + hopelessPhrase + `"`
	case pick < 30:
		e.fate, product = missing, fmt.Sprint(missingProduct)
	case pick < 50:
		e.fate, when = poison, "yesterday"
	case pick < 60:
		e.fate, product = poison, "-1"
	case pick < 75:
		e.fate = unstorable
	}
	e.body = fmt.Appendf(nil, `{"user_id":%d,"event_type":%q,"search_phrase":%s,"product_id":%s,"occurred_at":%q,"message_id":%q}`,
		e.user, kind, phrase, product, when, id)
	if e.fate == poison && d.Chance(300) {
		e.body = fmt.Appendf(nil, "\xff{%d", i)
	}
	if d.Chance(500) {
		e.properties = propertiesOf(id)
	} else {
		e.properties = propertiesOf("")
	}
	return e
}

// rejected reports whether the store refuses a profile for an event in it.
func (p *plan) rejected(stored *profile.Profile) bool {
	for _, id := range stored.Applied.IDs {
		for i := range p.events {
			if e := &p.events[i]; e.fate == unstorable && e.digest.ID() == id {
				return true
			}
		}
	}
	return false
}

// removeRejects has the store take all documents: a test server cannot tell them by
// the ids in them.
func (p *plan) removeRejects() {
	for i := range p.events {
		if p.events[i].fate == unstorable {
			p.events[i].fate = folded
		}
	}
}

// shops are the catalogues made so far, by their dimensions.
var shops sync.Map

// shopOf returns the catalogue of so many dimensions.
func shopOf(dimensions int) map[int32]profile.Product {
	if shop, ok := shops.Load(dimensions); ok {
		return shop.(map[int32]profile.Product)
	}
	shop := map[int32]profile.Product{}
	for id := int32(1); id <= products; id++ {
		p := profile.Product{ID: id, Name: "product " + strings.Repeat("x", int(id)), Category: "sim", Model: vector.HashModel}
		p.Vector = embed(dimensions, catalog.EmbedText(p))
		shop[id] = p
	}
	shops.Store(dimensions, shop)
	return shop
}

// embed embeds a text offline, as the oracle does.
func embed(dimensions int, text string) []float32 {
	hash, err := vector.NewHash(dimensions)
	if err != nil {
		panic(err)
	}
	all, err := hash.Embed(context.Background(), []string{text})
	if err != nil {
		panic(err)
	}
	return all[0]
}
