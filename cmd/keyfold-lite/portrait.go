package main

import (
	"context"
	"fmt"
	"time"

	"keyfold/engine"
	"keyfold/sink/sqlite"
	"keyfold/source/catalog"
	"keyfold/source/inbox"
)

// portrait is a profile a person can look at: its figures, what its user did
// last, and the products it is nearest to.
type portrait struct {
	profile *engine.Profile
	near    []catalog.Neighbour
	events  []inbox.StoredEvent
	names   map[int32]engine.Product // of the events' products
}

func newPortrait(ctx context.Context, file *sqlite.Reader, user int32, near, events int) (*portrait, error) {
	profiles, err := file.Load(ctx, []int32{user})
	if err != nil {
		return nil, err
	}
	p := &portrait{profile: profiles[0], names: map[int32]engine.Product{}}
	if p.profile == nil {
		return p, nil
	}
	if p.events, err = inbox.Last(ctx, file, user, events); err != nil {
		return nil, err
	}
	var ids []int32
	for _, e := range p.events {
		if parsed, err := e.Event(); err == nil && parsed.ProductID != 0 {
			ids = append(ids, parsed.ProductID)
		}
	}
	products, err := file.Products(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, product := range products {
		p.names[product.ID] = product
	}
	if !p.profile.Erased() {
		p.near, err = catalog.Nearest(ctx, p.profile.Vector, file.AllProducts(ctx), near)
	}
	return p, err
}

func (p *portrait) print(w *text) {
	f := p.profile
	if f.Erased() {
		w.line("user %d was erased %s", f.UserID, f.ErasedAt.Time().Format(time.DateTime))
		return
	}
	w.line("user %d: %s events in %s writes, the last a %s on %s", f.UserID, number(f.EventCount), number(int64(f.Version)),
		f.LastType, f.Updated.Time().Format("2006-01-02 15:04:05 MST"))
	w.line("  mass %.4f (history %s), %d dimensions, model %s", f.Mass, f.History, len(f.Vector), f.Model)
	if len(p.near) > 0 {
		w.line("  nearest products (cosine)")
	}
	for _, n := range p.near {
		w.line("    %6.3f  %s", n.Cosine, title(n.Product))
	}
	if len(p.events) > 0 {
		w.line("  last events")
	}
	for _, e := range p.events {
		w.line("    %s  %-16s  %-10s  %s", e.OccurredAt.Time().Format(time.DateTime), e.Type, e.State, p.reference(&e))
	}
}

// reference is what an event was about. The inbox keeps events as they came:
// this one was valid when it was stored.
func (p *portrait) reference(stored *inbox.StoredEvent) string {
	e, err := stored.Event()
	if err != nil {
		return err.Error()
	}
	if e.Type == engine.Search {
		return fmt.Sprintf("%q", e.Phrase)
	}
	product, ok := p.names[e.ProductID]
	if !ok {
		return fmt.Sprintf("product %d", e.ProductID)
	}
	return title(product)
}

func title(p engine.Product) string {
	name := fmt.Sprintf("product %d", p.ID)
	if p.Name != "" {
		name = p.Name
	}
	if p.Category != "" {
		name += "  (" + p.Category + ")"
	}
	return name
}

// shown is a portrait for -o json.
type shown struct {
	document
	LastEvents []shownEvent   `json:"last_events"`
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

func (p *portrait) document() shown {
	s := shown{document: documentOf(p.profile), LastEvents: []shownEvent{}, Nearest: []shownProduct{}}
	for _, e := range p.events {
		parsed, _ := e.Event() // a body that no longer parses has no reference to show
		s.LastEvents = append(s.LastEvents, shownEvent{
			e.OccurredAt.Time(), e.Type.String(), parsed.Phrase, parsed.ProductID, e.MessageID, e.State.String(),
		})
	}
	for _, n := range p.near {
		s.Nearest = append(s.Nearest, shownProduct{n.Product.ID, n.Product.Name, n.Product.Category, n.Cosine})
	}
	return s
}
