// Package users shows and exports profiles, whatever store they are in.
package users

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/source/catalog"
)

// Store is what a view is read from.
type Store interface {
	Load(ctx context.Context, users []int32) ([]*profile.Profile, error)
	Products(ctx context.Context, ids []int32) ([]profile.Product, error)
	// ProductStreams returns all products, in streams that may be read beside each other.
	ProductStreams(ctx context.Context) []iter.Seq2[profile.Product, error]
}

// Event is one of the last things a user did, and where it stands.
type Event struct {
	profile.Event
	State string
	// Waits says that no verdict on the event is known; Since is when it arrived, 0: not known.
	Waits bool
	Since engine.Millis
}

// Folded is the state of an event that is in the profile.
const Folded = "folded"

// ProfileView is a profile a person can look at: its figures, what its user did
// last where that is known, and the products it is nearest to.
type ProfileView struct {
	Profile *profile.Profile // nil: the user has none
	asked   int              // for so many of the nearest products
	mix     float64          // the second vector's share of what they are nearest to
	Near    []catalog.Neighbour
	Events  []Event
	names   map[int32]profile.Product // of the events' products
}

// NoNearest is what is shown where there are no products to compare with.
const NoNearest = "  nearest products: no product with a vector of this model is stored; `products import` stores them"

// NewProfileView reads a user's profile and the near products nearest to it, or to mix x
// its second vector + (1 - mix) x the first.
func NewProfileView(ctx context.Context, store Store, user int32, near int, mix float64, events []Event) (*ProfileView, error) {
	profiles, err := store.Load(ctx, []int32{user})
	if err != nil {
		return nil, err
	}
	p := &ProfileView{Profile: profiles[0], asked: near, mix: mix, Events: events, names: map[int32]profile.Product{}}
	settle(p.Profile, events)
	if err := p.name(ctx, store); err != nil || p.Profile == nil || p.Profile.Erased() {
		return p, err
	}
	wanted, err := p.Profile.Mixed(mix)
	if err != nil || near == 0 { // otherwise the catalogue is not read
		return p, err
	}
	nearest, err := catalog.Nearest(ctx, [][]float64{wanted}, near, store.ProductStreams(ctx)...)
	if err != nil {
		return nil, err
	}
	p.Near = nearest[0]
	return p, nil
}

// settle marks the events that the profile has and whose verdict is not known yet: they were
// read before it.
func settle(p *profile.Profile, events []Event) {
	for i := range events {
		if e := &events[i]; e.Waits && p.Has(e.Digest) {
			e.State, e.Waits = Folded, false
		}
	}
}

// name reads the names of the events' products.
func (p *ProfileView) name(ctx context.Context, store Store) error {
	var ids []int32
	events := p.Events
	for i := range events {
		if id := events[i].ProductID; id != 0 && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	products, err := store.Products(ctx, ids)
	for _, product := range products {
		p.names[product.ID] = product
	}
	return err
}

// Headline says in one line what the profile is of.
func (p *ProfileView) Headline() string {
	f := p.Profile
	if f.Erased() {
		return fmt.Sprintf("user %d was erased at %s", f.UserID, cli.At(f.ErasedAt.Time()))
	}
	return fmt.Sprintf("user %d: %s in %s, the last a %s on %s", f.UserID, cli.Count(f.EventCount, "event"), cli.Count(int64(f.Version), "write"),
		f.LastType, f.Updated.Time().Format("2006-01-02 15:04:05 MST"))
}

// Figures says in one line how the profile was made.
func (p *ProfileView) Figures() string {
	f := p.Profile
	return fmt.Sprintf("mass %.4f (history %s), %d dimensions, model %s", f.Mass, f.History, len(f.Vector), f.Model)
}

// Second says in one line what the second vector is, "" where there is none.
func (p *ProfileView) Second() string {
	s := p.Profile.Short
	if s.Vector == nil {
		return ""
	}
	return fmt.Sprintf("second vector: half-life %v, mass %.4f, cosine to the first %.3f", s.HalfLife, s.Mass, floats.Dot(s.Vector, p.Profile.Vector))
}

// Print writes the view as text.
func (p *ProfileView) Print(w *cli.Text) {
	w.Line("%s", p.Headline())
	if p.Profile.Erased() {
		return
	}
	w.Line("  %s", p.Figures())
	if second := p.Second(); second != "" {
		w.Line("  %s", second)
	}
	switch {
	case len(p.Near) > 0 && p.mix > 0:
		w.Line("  nearest products (cosine to %.3g x the second vector + %.3g x the first)", p.mix, 1-p.mix)
	case len(p.Near) > 0:
		w.Line("  nearest products (cosine)")
	case p.asked > 0:
		w.Line(NoNearest)
	}
	for _, n := range p.Near {
		w.Line("    %6.3f  %s", n.Cosine, title(n.Product))
	}
	if len(p.Events) > 0 {
		w.Line("  last events (UTC)")
	}
	for _, e := range p.Events {
		w.Line("    %s  %-16s  %-10s  %s", e.OccurredAt.Time().Format(time.DateTime), e.Type, e.State, p.Of(&e.Event))
	}
}

// Of says what an event is of: its phrase or its product.
func (p *ProfileView) Of(e *profile.Event) string {
	switch {
	case e.Phrase == "" && e.ProductID == 0:
		return "(deleted by history prune)"
	case e.Type.HasPhrase():
		return fmt.Sprintf("%q", e.Phrase)
	}
	product, ok := p.names[e.ProductID]
	if !ok {
		return fmt.Sprintf("product %d", e.ProductID)
	}
	return title(product)
}

func title(p profile.Product) string {
	name := fmt.Sprintf("product %d", p.ID)
	if p.Name != "" {
		name = p.Name
	}
	if p.Category != "" {
		name += "  (" + p.Category + ")"
	}
	return name
}

// jsonView is a view for -o json.
type jsonView struct {
	Document
	LastEvents []shownEvent   `json:"last_events,omitempty"`
	Nearest    []shownProduct `json:"nearest_products"`
}

type shownEvent struct {
	OccurredAt   time.Time `json:"occurred_at"`
	EventType    string    `json:"event_type"`
	SearchPhrase string    `json:"search_phrase,omitempty"`
	ProductID    int32     `json:"product_id,omitempty"`
	MessageID    string    `json:"message_id"`
	State        string    `json:"state"`
}

type shownProduct struct {
	ProductID   int32   `json:"product_id"`
	ProductName string  `json:"product_name,omitempty"`
	Category    string  `json:"category,omitempty"`
	Cosine      float64 `json:"cosine"`
}

// JSON returns the view as it is printed with -o json.
func (p *ProfileView) JSON() any {
	s := jsonView{Document: DocumentOf(p.Profile), Nearest: []shownProduct{}}
	for _, e := range p.Events {
		s.LastEvents = append(s.LastEvents, shownEvent{
			e.OccurredAt.Time(), e.Type.String(), e.Phrase, e.ProductID, e.MessageID, e.State,
		})
	}
	for _, n := range p.Near {
		s.Nearest = append(s.Nearest, shownProduct{n.Product.ID, n.Product.Name, n.Product.Category, n.Cosine})
	}
	return s
}
