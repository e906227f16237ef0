package dashboard

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/chart"
	"keyfold/service/profile/explanation"
	"keyfold/service/profile/recommend"
	"keyfold/service/profile/users"
)

// shop is a catalogue with one profile, as a store has them.
type shop struct {
	profile  *profile.Profile
	products []profile.Product
	events   []explanation.Event // the oldest first
	phrases  map[string][]float64

	away      error // what each read is answered with
	phrasesAt error
	explained atomic.Int32
}

func (s *shop) Load(context.Context, []int32) ([]*profile.Profile, error) {
	return []*profile.Profile{s.profile}, s.away
}

func (s *shop) Products(_ context.Context, ids []int32) (found []profile.Product, err error) {
	for _, p := range s.products {
		if slices.Contains(ids, p.ID) {
			found = append(found, p)
		}
	}
	return found, s.away
}

func (s *shop) ProductStreams(context.Context) []iter.Seq2[profile.Product, error] {
	return []iter.Seq2[profile.Product, error]{func(yield func(profile.Product, error) bool) {
		for _, p := range s.products {
			if !yield(p, nil) {
				return
			}
		}
	}}
}

func (s *shop) Resolve(_ context.Context, all []string) (answers []engine.Resolved) {
	for _, phrase := range all {
		answers = append(answers, engine.Resolved{Vector: s.phrases[phrase], Err: s.phrasesAt})
	}
	return answers
}

func (s *shop) laws() profile.Config {
	c := profile.DefaultConfig()
	c.Dimensions, c.Model = 4, "m"
	return c
}

// newShop has six products, and user 17, whose last write of the events "c" and "d" turned the
// profile to boots.
func newShop() *shop {
	s := &shop{
		products: []profile.Product{
			{ID: 1, Name: "trail running shoes", Category: "Running", Vector: []float32{1, 0, 0, 0}},
			{ID: 2, Name: "road running shoes", Category: "Running", Vector: []float32{0.9, 0.1, 0, 0}},
			{ID: 3, Name: "hiking boots", Category: "Hiking", Vector: []float32{0, 1, 0, 0}},
			{ID: 4, Name: "winter boots", Category: "Hiking", Vector: []float32{0.1, 0.8, 0.2, 0}},
			{ID: 5, Name: "chef knife", Category: "Kitchen", Vector: []float32{0, 0, 1, 0}},
			{ID: 6, Vector: []float32{0.2, 0, 0, 1}},
		},
		phrases: map[string][]float64{"running": {0.8, 0.6, 0, 0}, "boots for winter": {0, 0.8, 0.6, 0}},
	}
	s.add("a", noon.Add(-26*time.Hour), profile.Search, 0, "running")
	s.add("b", noon.Add(-25*time.Hour), profile.ProductView, 1, "")
	s.fold()
	s.add("c", noon.Add(-time.Minute), profile.ProductPurchase, 3, "")
	s.add("d", noon.Add(-50*time.Second), profile.Search, 0, "boots for winter")
	s.fold()
	return s
}

func (s *shop) add(id string, at time.Time, kind profile.EventType, product int32, phrase string) {
	s.events = append(s.events, explanation.Event{State: "pending", Event: profile.Event{
		UserID: 17, MessageID: id, Digest: profile.DigestOf(id), OccurredAt: engine.MillisOf(at), Type: kind, ProductID: product, Phrase: phrase,
	}})
}

// fold writes what waits into the profile.
func (s *shop) fold() {
	laws := s.laws()
	next := profile.Profile{UserID: 17, Model: "m", History: profile.Mass}
	if s.profile != nil {
		next = *s.profile
	}
	var steps []profile.Step
	var ids []profile.AppliedID
	for i := range s.events {
		e := &s.events[i]
		if e.State == "" {
			continue
		}
		vector := s.phrases[e.Phrase]
		if e.ProductID != 0 {
			vector, _ = engine.Unit(s.products[e.ProductID-1].Vector, 4)
		}
		weight, _ := laws.Weights.Of(e.Type)
		steps, ids = append(steps, profile.Step{Vector: vector, Weight: weight, At: e.OccurredAt}), append(ids, e.Digest.ID())
		next.LastType, e.State = e.Type, ""
	}
	state := laws.Fold(next.State(), steps)
	next.Vector, next.Mass, next.Updated = state.Vector, state.Mass, state.Updated
	next.EventCount += int64(len(steps))
	next.Version++
	next.Applied = next.Applied.With(uint64(next.Version), ids, state.Updated+engine.Millis(5000), profile.DefaultIDLimits())
	s.profile = &next
}

// users are where the page is read, of the functions that the commands stand on.
func (s *shop) users() *Users {
	return &Users{
		Program: "keyfold", Window: 5 * time.Second, Longest: 15 * time.Second,
		Show: func(ctx context.Context, user int32, near, last int) (Shown, error) {
			var events []users.Event
			for _, e := range slices.Backward(s.events) {
				if len(events) == last {
					break
				}
				one := users.Event{Event: e.Event, State: users.Folded, Since: e.OccurredAt}
				if e.State != "" {
					one.State, one.Waits = e.State, true
				}
				events = append(events, one)
			}
			view, err := users.NewProfileView(ctx, s, user, near, 0, events)
			return Shown{View: view, None: "user 17 has no profile in the database shop"}, err
		},
		Explain: s.explain,
		Recommend: func(context.Context, int32, recommend.Options) (*recommend.Answer, error) {
			return &recommend.Answer{UserID: 17, Basis: recommend.ByProfile, Products: []recommend.Product{{ID: 4, Name: "winter boots", Score: 0.8125}}}, s.away
		},
	}
}

func (s *shop) explain(ctx context.Context, p *profile.Profile, o explanation.Options) (*explanation.View, error) {
	s.explained.Add(1)
	return explanation.New(ctx, explanation.Input{Profile: p, Events: s.events, Laws: s.laws(), Phrases: s, Store: s}, o)
}

var errAway = errors.New("MongoDB does not listen at its address")

// people serves the page of a shop. What is computed is waited for at the test's end.
func people(t testing.TB, s *shop, config Config, change ...func(*Users)) *Dashboard {
	t.Helper()
	from := s.users()
	for _, c := range change {
		c(from)
	}
	d := shownAs(t, config, Sources{Users: from, Look: lookAt(quiet(90))}, nil)
	t.Cleanup(d.results.close)
	return d
}

// everything has each page.
func everything() Sources {
	return Sources{
		Users: newShop().users(), Failures: newPile().failures(), Notifications: newPost().notifications(), Rules: newPost().rules(),
		Look: lookAt(quiet(90)), Evaluated: evaluatedNow,
	}
}

// evaluatedNow is the page of an evaluation.
func evaluatedNow() (*chart.Page, time.Time, error) {
	lines := chart.Lines{Title: "Hits", Unit: " %", Axis: "half-life", Places: []string{"1h", "1d"}, Series: []chart.Series{{Name: "own", Values: []float64{20, 30}, Low: []float64{18, 28}, High: []float64{22, 32}}}}
	return &chart.Page{Title: "What a fresh profile finds", Lead: []string{"A profile finds 30 % of cases <b>."}, Sections: []chart.Section{
		{Title: "Half-lives", Text: "The band holds 95 of 100 draws.", Chart: lines.SVG(), Table: &chart.Table{Head: []string{"setting", "HR@10"}, Rows: [][]string{{"1 day", "0.3000"}}}},
	}}, noon, nil
}
