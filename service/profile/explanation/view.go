package explanation

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine/profile"
	"keyfold/engine/profile/explain"
	"keyfold/source/catalog"
)

// Options say what is shown.
type Options struct {
	Events   int           // how many, by share
	Near     int           // how many of the nearest products
	Last     int           // how many of the newest
	Together bool          // the reasons of a product take events of one product or phrase together
	Without  []string      // "last-session", "last-write", a type, or the beginning of a message_id
	HalfLife time.Duration // what if; 0: not asked
	Product  int32         // why it is there; 0: not asked
}

// Words for events that can be left out.
const (
	LastSession = "last-session" // of the user's last session
	LastWrite   = "last-write"   // that the last write folded
)

// View is an explanation a person can look at.
type View struct {
	UserID    int32          `json:"user_id"`
	Folded    int            `json:"refolded_events"`
	Distance  float64        `json:"distance"` // of the refold to the stored profile
	Equal     bool           `json:"equal"`
	Remainder float64        `json:"remainder_share"`
	Note      string         `json:"note,omitempty"`
	Events    []Part         `json:"events"`
	More      int            `json:"more_events"`           // in the profile, not listed
	Last      []Part         `json:"last_events,omitempty"` // in the profile, the newest first
	Types     []Sum          `json:"by_type"`
	Category  []Sum          `json:"by_category"`
	Sessions  []Sum          `json:"by_session"`
	Ages      []Sum          `json:"by_age"`
	Ratios    []string       `json:"ratios,omitempty"`
	Outside   map[string]int `json:"not_in_the_profile,omitempty"` // by state
	Nearest   []Near         `json:"nearest_products"`
	Rest      []Near         `json:"nearest_of_remainder,omitempty"`
	Product   *Near          `json:"product,omitempty"`
	WhatIf    []WhatIf       `json:"what_if,omitempty"`
}

// Part is what an event counts.
type Part struct {
	MessageID  string    `json:"message_id"`
	OccurredAt time.Time `json:"occurred_at"`
	Type       string    `json:"event_type"`
	Of         string    `json:"of"` // product or phrase
	Share      float64   `json:"share"`
	Left       float64   `json:"weight_left,omitempty"`
	// Events is how many events of one product or phrase the part is of, where they are
	// taken together; the id, the time and the type are then those of the newest.
	Events int `json:"events,omitempty"`
}

// Sum is what several events count.
type Sum struct {
	Name   string  `json:"name"`
	Events int     `json:"events"`
	Share  float64 `json:"share"`
}

// Near is a product with the events that put it there.
type Near struct {
	ProductID int32   `json:"product_id"`
	Title     string  `json:"title"`
	Cosine    float64 `json:"cosine"`
	Because   []Part  `json:"because,omitempty"` // Share is that of the cosine
	Remainder float64 `json:"remainder_share,omitempty"`
	// Newest is what the events of the last write count in the cosine, together, and names that
	// of them which counts most; nil where a view is not without them.
	Newest *Part `json:"of_last_write,omitempty"`
}

// WhatIf is the profile folded anew otherwise.
type WhatIf struct {
	What    string  `json:"what"`
	Events  int     `json:"events"` // left out
	Cosine  float64 `json:"cosine"` // to the stored profile; 0 where nothing is left
	Nearest []Near  `json:"nearest_products"`
}

// builder makes a view.
type builder struct {
	Input
	Options
	*explain.Explanation
	known  map[int32]product
	view   *View
	newest func(*explain.Event) bool // of the last write; nil: not asked

	gathered []weighed // where reasons are taken together
	rest     []float64
}

// New explains a profile that is there.
func New(ctx context.Context, in Input, o Options) (*View, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	events, known, err := in.resolve(ctx)
	if err != nil {
		return nil, err
	}
	b := &builder{Input: in, Options: o, Explanation: explain.Of(in.Laws, in.Profile, events), known: known}
	x := b.Explanation
	b.view = &View{
		UserID: in.Profile.UserID, Folded: x.Known, Distance: x.Distance, Equal: x.Distance <= explain.Equal,
		Remainder: x.RemainderShare, Note: in.Note, Outside: map[string]int{},
	}
	b.parts()
	b.sums()
	if o.Together {
		b.gathered, b.rest = b.gather(0, nil)
	}
	folded, err := b.whatIfs()
	if err != nil {
		return nil, err
	}
	return b.view, b.nearest(ctx, folded)
}

// parts lists the events with the largest shares.
func (b *builder) parts() {
	known := slices.DeleteFunc(slices.Clone(b.Parts), func(p explain.Part) bool {
		if p.Event.State != "" {
			b.view.Outside[p.Event.State]++
		}
		return p.Event.State != "" || p.Event.Vector == nil
	})
	slices.SortStableFunc(known, func(x, y explain.Part) int { return cmp.Compare(y.Share, x.Share) })
	b.view.Events = []Part{}
	for _, p := range known[:min(b.Options.Events, len(known))] {
		part := b.part(p.Event)
		part.Share, part.Left = p.Share, p.Left
		b.view.Events = append(b.view.Events, part)
	}
	b.view.More = len(known) - len(b.view.Events)
	slices.SortStableFunc(known, func(x, y explain.Part) int { return y.Event.Compare(&x.Event.Event) })
	for _, p := range known[:min(b.Last, len(known))] {
		part := b.part(p.Event)
		part.Share, part.Left = p.Share, p.Left
		b.view.Last = append(b.view.Last, part)
	}
}

func (b *builder) part(e *explain.Event) Part {
	of := fmt.Sprintf("%q", e.Phrase)
	if e.ProductID != 0 {
		of = b.title(e.ProductID)
	}
	return Part{MessageID: e.MessageID, OccurredAt: e.OccurredAt.Time(), Type: e.Type.String(), Of: of}
}

func (b *builder) title(id int32) string {
	if p := b.known[id]; p.Name != "" {
		return p.Name
	}
	return fmt.Sprintf("product %d", id)
}

// sums adds the shares up by type, category, session and age.
func (b *builder) sums() {
	v := b.view
	types := b.By(func(e *explain.Event) string { return e.Type.String() })
	v.Types = shown(types)
	v.Ratios = ratios(types)
	v.Category = shown(b.By(func(e *explain.Event) string {
		if e.ProductID == 0 {
			return "searches"
		}
		return cmp.Or(e.Category, "no category")
	}))
	v.Ages = shown(b.By(explain.Age(b.Profile.Updated)))
	sessions := b.Sessions()
	for i, s := range sessions {
		sessions[i].Name = s.From.Time().Format(time.DateTime)
	}
	v.Sessions = shown(sessions)
}

func shown(sums []explain.Sum) []Sum {
	all := make([]Sum, len(sums))
	for i, s := range sums {
		all[i] = Sum{s.Name, s.Events, s.Share}
	}
	return all
}

// ratios says how much more an event of the type that counts most counts than one of each
// other type, as they stand today.
func ratios(types []explain.Sum) (all []string) {
	mean := func(s explain.Sum) float64 { return s.Share / float64(s.Events) }
	types = slices.Clone(types)
	slices.SortStableFunc(types, func(a, b explain.Sum) int { return cmp.Compare(mean(b), mean(a)) })
	for i := 1; i < len(types); i++ {
		if least := mean(types[i]); least > 0 {
			all = append(all, fmt.Sprintf("one %s counts as much as %.2g of %s", types[0].Name, mean(types[0])/least, types[i].Name))
		}
	}
	return all
}

// nearest reads the catalogue once for the profile, the remainder and each what-if.
func (b *builder) nearest(ctx context.Context, folded []profile.State) error {
	wanted := [][]float64{b.Profile.Vector}
	rest := b.view.Remainder > explain.Equal && floats.Norm(b.Remainder, 2) > 1e-12 // without a mass there may be no vector
	if rest {
		wanted = append(wanted, unit(b.Remainder))
	}
	for _, s := range folded {
		wanted = append(wanted, s.Vector)
	}
	found := make([][]catalog.Neighbour, len(wanted))
	if b.Near > 0 { // otherwise the catalogue is not read
		var err error
		if found, err = catalog.Nearest(ctx, wanted, b.Near, b.Store.ProductStreams(ctx)...); err != nil {
			return err
		}
	}
	var ids []int32
	for _, n := range found[0] {
		ids = append(ids, n.Product.ID)
	}
	if b.Product != 0 {
		ids = append(ids, b.Product)
	}
	if err := b.read(ctx, b.known, ids); err != nil {
		return err
	}
	b.view.Nearest = []Near{}
	for _, n := range found[0] {
		near := plain(n)
		b.because(&near, b.known[n.Product.ID].unit)
		b.view.Nearest = append(b.view.Nearest, near)
	}
	found = found[1:]
	if rest {
		b.view.Rest, found = list(found[0]), found[1:]
	}
	for i := range b.view.WhatIf {
		b.view.WhatIf[i].Nearest = list(found[i])
	}
	if b.Product != 0 {
		return b.askedProduct()
	}
	return nil
}

func plain(n catalog.Neighbour) Near {
	return Near{ProductID: n.Product.ID, Title: cmp.Or(n.Product.Name, fmt.Sprintf("product %d", n.Product.ID)), Cosine: n.Cosine}
}

func list(found []catalog.Neighbour) []Near {
	all := make([]Near, len(found))
	for i, n := range found {
		all[i] = plain(n)
	}
	return all
}

func unit(v []float64) []float64 {
	return floats.ScaleTo(make([]float64, len(v)), 1/floats.Norm(v, 2), v)
}

// reasons is how many events are named for a product.
const reasons = 2

// because adds the events that put a product there.
func (b *builder) because(near *Near, vector []float64) {
	if vector == nil {
		return
	}
	if b.newest != nil {
		near.Newest = b.ofLastWrite(near.Cosine, vector)
	}
	if b.Together {
		near.because(vector, b.gathered, b.rest)
		return
	}
	score := b.Score(vector)
	if score.Cosine == 0 {
		return
	}
	near.Remainder = score.Remainder / score.Cosine
	for _, p := range score.Parts[:min(reasons, len(score.Parts))] {
		part := b.part(p.Event)
		part.Share = p.Score / score.Cosine
		near.Because = append(near.Because, part)
	}
}

// ofLastWrite adds up what the last write's events count in a product's cosine.
func (b *builder) ofLastWrite(cosine float64, vector []float64) *Part {
	var sum Part
	most := math.Inf(-1)
	for _, p := range b.Parts {
		if p.Event.State != "" || p.Event.Vector == nil || !b.newest(p.Event) || cosine == 0 {
			continue
		}
		one := share(p.Coefficient, b.Profile.Mass) * floats.Dot(p.Event.Vector, vector) / cosine
		total, events := sum.Share+one, sum.Events+1
		if one > most {
			most, sum = one, b.part(p.Event)
		}
		sum.Share, sum.Events = total, events
	}
	if sum.Events == 0 {
		return nil
	}
	return &sum
}

// askedProduct explains the product that is asked for.
func (b *builder) askedProduct() error {
	id := b.Product
	vector := b.known[id].unit
	if vector == nil {
		return fmt.Errorf("--product %d: no product with a usable vector of this model has the id", id)
	}
	near := Near{ProductID: id, Title: b.title(id), Cosine: floats.Dot(vector, b.Profile.Vector)}
	b.because(&near, vector)
	b.view.Product = &near
	return nil
}
