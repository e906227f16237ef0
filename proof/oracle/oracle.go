// Package oracle says what profiles must be: it folds events one at a time, by
// the law itself, with a map for what it has seen. Tests and the soak compare
// what keyfold stored with it.
package oracle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

// eventTypes are the types by their names on the wire. The oracle's table is its own, with
// the published weights: with the engine's, it would agree with the engine's mistakes.
var eventTypes = map[string]eventType{
	"search":           {phrase: true, weight: 0.7},
	"product_view":     {weight: 0.3},
	"product_click":    {weight: 0.5},
	"product_purchase": {weight: 1},
}

type eventType struct {
	phrase bool
	weight float64
}

// Weight returns the published weight of a type, 0 for one that the oracle does not know.
func Weight(t profile.EventType) float64 { return eventTypes[t.String()].weight }

// Oracle folds events one at a time.
type Oracle struct {
	Config profile.Config
	Users  map[int32]*User

	types map[string]eventType

	// What became of the bodies that were added.
	Bodies, Folded, Repeated, Missing int
	Dead                              map[string]int // by reason

	hash     *vector.Hash
	products map[int32]profile.Product
	vectors  map[string][]float64
	seen     map[eventID]bool
}

// eventID names an event: message ids are unique per user.
type eventID struct {
	user int32
	id   string
}

// User is what the oracle expects of one profile.
type User struct {
	profile.State
	Short    profile.State // the second vector, where the settings have one
	Events   int64
	LastType profile.EventType
	LastID   string
	// Decayed sums of the weights' sizes: how much could cancel.
	weight, shortWeight float64
}

// New returns an oracle for a catalogue. Products and phrases are embedded
// offline.
func New(config profile.Config, products []profile.Product) (*Oracle, error) {
	hash, err := vector.NewHash(config.Dimensions)
	if err != nil {
		return nil, err
	}
	o := &Oracle{
		Config:   config,
		Users:    map[int32]*User{},
		types:    maps.Clone(eventTypes),
		Dead:     map[string]int{},
		hash:     hash,
		products: map[int32]profile.Product{},
		vectors:  map[string][]float64{},
		seen:     map[eventID]bool{},
	}
	for _, p := range products {
		o.products[p.ID] = p
	}
	return o, nil
}

// AddType has the oracle know a type of the shop's.
func (o *Oracle) AddType(name string, phrase bool, weight float64) {
	o.types[name] = eventType{phrase, weight}
}

// Add takes one message body in.
func (o *Oracle) Add(body []byte) error {
	o.Bodies++
	e, err := profile.ParseEvent(body, time.Now())
	if err != nil {
		o.Dead[engine.ReasonOf(err)]++
		return nil
	}
	return o.AddEvent(&e)
}

// AddEvent takes one valid event in.
func (o *Oracle) AddEvent(e *profile.Event) error {
	if _, known := o.types[e.Type.String()]; !known {
		return fmt.Errorf("the oracle has no weight for %q", e.Type)
	}
	id := eventID{e.UserID, e.MessageID}
	if o.seen[id] {
		o.Repeated++
		return nil
	}
	o.seen[id] = true
	x, err := o.vector(e)
	if errors.Is(err, engine.ErrMissing) {
		o.Missing++
		return nil
	}
	if err != nil {
		return err
	}
	o.Folded++
	o.fold(e, x)
	return nil
}

func (o *Oracle) fold(e *profile.Event, x []float64) {
	u := o.Users[e.UserID]
	if u == nil {
		u = &User{}
		o.Users[e.UserID] = u
	}
	w := o.types[e.Type.String()].weight
	u.weight = weightAfter(o.Config, u.weight, u.Updated, e.OccurredAt, w)
	last := profile.Event{OccurredAt: u.Updated, MessageID: u.LastID}
	if u.Events == 0 || last.Before(e) {
		u.LastType, u.LastID = e.Type, e.MessageID
	}
	step := profile.Step{Vector: x, Weight: w, At: e.OccurredAt}
	if o.Config.ShortHalfLife != 0 {
		law := o.shortLaw()
		u.shortWeight = weightAfter(law, u.shortWeight, u.Updated, e.OccurredAt, w)
		u.Short = law.FoldOne(u.Short, step)
	}
	u.State = o.Config.FoldOne(u.State, step)
	u.Events++
}

func weightAfter(law profile.Config, sum float64, updated, at engine.Millis, w float64) float64 {
	if at >= updated {
		return sum*law.Decay(updated.Days(at)) + math.Abs(w)
	}
	return sum + math.Abs(w)*law.Decay(at.Days(updated))
}

// shortLaw is that of the second vector: half is left after a half-life.
func (o *Oracle) shortLaw() profile.Config {
	law := o.Config
	law.Lambda, law.History = math.Log(2)*float64(24*time.Hour)/float64(o.Config.ShortHalfLife), profile.Mass
	return law
}

func (o *Oracle) vector(e *profile.Event) ([]float64, error) {
	text := e.Phrase
	if !o.types[e.Type.String()].phrase {
		p, ok := o.products[e.ProductID]
		if !ok {
			return nil, engine.ErrMissing
		}
		text = catalog.EmbedText(p)
	}
	if v, ok := o.vectors[text]; ok {
		return v, nil
	}
	raw, err := o.hash.Embed(context.Background(), []string{text})
	if err != nil {
		return nil, err
	}
	v, err := engine.Unit(raw[0], o.Config.Dimensions)
	o.vectors[text] = v
	return v, err
}

// Tolerance of a component and of the mass.
const Tolerance = 1e-9

// Check compares a stored profile with what is expected of its user; nil says
// that they are equal.
func (o *Oracle) Check(p *profile.Profile) error {
	u := o.Users[p.UserID]
	if u == nil {
		return fmt.Errorf("user %d has a profile and no events", p.UserID)
	}
	if p.EventCount != u.Events || p.LastType != u.LastType || p.Updated != u.Updated {
		return fmt.Errorf("user %d: %d events, the last a %s at %v; want %d, %s at %v", p.UserID,
			p.EventCount, p.LastType, p.Updated.Time(), u.Events, u.LastType, u.Updated.Time())
	}
	if o.Config.ShortHalfLife != p.Short.HalfLife || (p.Short.Vector != nil) != (p.Short.HalfLife != 0) {
		return fmt.Errorf("user %d: a second vector of the half-life %v with %d components; want the half-life %v",
			p.UserID, p.Short.HalfLife, len(p.Short.Vector), o.Config.ShortHalfLife)
	}
	err := u.compare("", p.State(), u.State, u.weight)
	if err == nil && p.Short.Vector != nil {
		err = u.compare("second vector: ", profile.State{Vector: p.Short.Vector, Mass: p.Short.Mass}, u.Short, u.shortWeight)
	}
	if err != nil {
		return fmt.Errorf("user %d: %w", p.UserID, err)
	}
	return nil
}

func (u *User) compare(name string, got, want profile.State, weight float64) error {
	if want.Mass < 1e-6*weight {
		return nil // cancelled: its direction is rounding
	}
	if d := floats.Distance(got.Vector, want.Vector, math.Inf(1)); !(d <= Tolerance) {
		return fmt.Errorf("%scomponents differ by %g after %d events", name, d, u.Events)
	}
	if d := math.Abs(got.Mass - want.Mass); !(d <= Tolerance*max(1, want.Mass)) {
		return fmt.Errorf("%smass differs by %g", name, d)
	}
	return nil
}

// CheckAll compares all profiles; every user with events must have one.
func (o *Oracle) CheckAll(profiles map[int32]*profile.Profile) error {
	var faults []error
	for _, p := range profiles {
		if err := o.Check(p); err != nil {
			faults = append(faults, err)
		}
	}
	for id := range o.Users {
		if profiles[id] == nil {
			faults = append(faults, fmt.Errorf("user %d has events and no profile", id))
		}
	}
	if len(faults) > 10 {
		faults = append(faults[:10], fmt.Errorf("and %d more", len(faults)-10))
	}
	return errors.Join(faults...)
}
