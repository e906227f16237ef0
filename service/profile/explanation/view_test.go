package explanation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/explanation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// catalogue has products 1 and 2 along the axes, and 3 between them.
type catalogue struct{ reads int }

var products = []profile.Product{
	{ID: 1, Name: "Mug", Category: "Kitchen", Vector: []float32{1, 0}}, {ID: 2, Name: "Lamp", Vector: []float32{0, 1}}, {ID: 3, Name: "Both", Vector: []float32{3, 4}},
}

func (*catalogue) Products(_ context.Context, ids []int32) (found []profile.Product, err error) {
	for _, p := range products {
		if slices.Contains(ids, p.ID) {
			found = append(found, p)
		}
	}
	return found, nil
}

func (c *catalogue) ProductStreams(context.Context) []iter.Seq2[profile.Product, error] {
	c.reads++
	return []iter.Seq2[profile.Product, error]{func(yield func(profile.Product, error) bool) {
		for _, p := range products {
			if !yield(p, nil) {
				return
			}
		}
	}}
}

// phrases lie between the axes, or are away.
type phrases struct{ err error }

func (p phrases) Resolve(_ context.Context, all []string) (answers []engine.Resolved) {
	for range all {
		answers = append(answers, engine.Resolved{Vector: []float64{math.Sqrt2 / 2, math.Sqrt2 / 2}, Err: p.err})
	}
	return answers
}

const start = engine.Millis(1_700_000_000_000)

// input is a user who searched, viewed the mug an hour later in another session, and bought
// the lamp a minute after that. Nothing decays.
func input(events ...explanation.Event) explanation.Input {
	laws := profile.DefaultConfig()
	laws.Dimensions, laws.Lambda, laws.Model = 2, 0, "m"
	add := func(id string, at engine.Millis, kind profile.EventType, product int32, phrase string) {
		events = append(events, explanation.Event{Event: profile.Event{
			UserID: 17, MessageID: id, Digest: profile.DigestOf(id), OccurredAt: start + at, Type: kind, ProductID: product, Phrase: phrase,
		}})
	}
	add("aa1", 0, profile.Search, 0, "bright")
	add("aa2", 3_600_000, profile.ProductView, 1, "")
	add("b", 3_660_000, profile.ProductPurchase, 2, "")
	half := math.Sqrt2 / 2
	x, y := 0.7*half+0.3, 0.7*half+1
	mass := math.Hypot(x, y)
	return explanation.Input{
		Profile: &profile.Profile{UserID: 17, Vector: []float64{x / mass, y / mass}, Mass: mass, Updated: start + 3_660_000, History: profile.Mass, Model: "m", EventCount: 3},
		Events:  events, Laws: laws, Phrases: phrases{}, Store: &catalogue{},
	}
}

func explained(t *testing.T, in explanation.Input, o explanation.Options) *explanation.View {
	t.Helper()
	v, err := explanation.New(t.Context(), in, o)
	must.OK(t, err)
	return v
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

// By hand: the sum is (0.795, 1.495), its length 1.693, and c (x . u) / m is the share.
func TestSharesByHand(t *testing.T) {
	v := explained(t, input(), explanation.Options{Events: 2, Near: 3, Product: 3})
	m := input().Profile.Mass
	purchase := input().Profile.Vector[1] / m
	view := 0.3 * input().Profile.Vector[0] / m
	if !v.Equal || v.Folded != 3 || !near(v.Remainder, 0) || v.More != 1 || len(v.Events) != 2 {
		t.Errorf("%+v", v)
	}
	if e := v.Events[0]; e.MessageID != "b" || e.Of != "Lamp" || !near(e.Share, purchase) || !near(e.Left, 1) {
		t.Errorf("the largest share: %+v, want %v", e, purchase)
	}
	types := map[string]float64{}
	for _, s := range v.Types {
		types[s.Name] = s.Share
	}
	if !near(types["product_view"], view) || !near(types["product_purchase"], purchase) || !near(types["search"], 1-view-purchase) {
		t.Errorf("by type: %+v", v.Types)
	}
	if len(v.Sessions) != 2 || v.Sessions[0].Events != 2 || v.Sessions[1].Events != 1 || len(v.Category) != 3 {
		t.Errorf("sessions %+v, categories %+v", v.Sessions, v.Category)
	}
	if len(v.Ratios) != 2 || !strings.HasPrefix(v.Ratios[0], "one product_purchase counts as much as") {
		t.Errorf("ratios %v", v.Ratios)
	}
	// The lamp's score is u2, of which the purchase is 1/m.
	for _, n := range v.Nearest {
		if n.ProductID != 2 {
			continue
		}
		if score := input().Profile.Vector[1]; !near(n.Cosine, score) || !near(n.Because[0].Share, 1/m/score) || n.Because[0].MessageID != "b" || n.Because[1].MessageID != "aa1" {
			t.Errorf("the lamp: %+v, want %v of %v", n, 1/m/score, score)
		}
	}
	if p := v.Product; p == nil || p.ProductID != 3 || p.Title != "Both" || len(p.Because) != 2 {
		t.Errorf("the product that is asked for: %+v", p)
	}
}

func TestWhatIf(t *testing.T) {
	v := explained(t, input(), explanation.Options{Near: 1, Without: []string{explanation.LastSession, "product_purchase", "aa1"}, HalfLife: time.Hour})
	left := []int{2, 1, 1, 0}
	// Without the purchase (0.795, 0.495) is left.
	purchase := (0.795*input().Profile.Vector[0] + 0.495*input().Profile.Vector[1]) / math.Hypot(0.795, 0.495)
	for i, what := range v.WhatIf {
		if what.Events != left[i] || what.Cosine <= 0 || what.Cosine >= 1 || len(what.Nearest) != 1 {
			t.Errorf("%s: %+v, want %d events left out", what.What, what, left[i])
		}
	}
	if got := v.WhatIf[1].Cosine; math.Abs(got-purchase) > 1e-4 || v.WhatIf[1].Nearest[0].ProductID != 3 || v.WhatIf[0].Nearest[0].ProductID != 3 {
		t.Errorf("without the purchase: %v, want %v; %+v", got, purchase, v.WhatIf)
	}
	for _, what := range []string{"aa", "zz"} { // two events, and none
		if _, err := explanation.New(t.Context(), input(), explanation.Options{Without: []string{what}}); err == nil {
			t.Errorf("--without %s: no error", what)
		}
	}
	one := explained(t, input(), explanation.Options{Near: 1, Without: []string{"b"}})
	var out bytes.Buffer
	if one.Print(&cli.Text{W: &out}); !strings.Contains(out.String(), "without b (1 event)") {
		t.Errorf("printed: %s", &out)
	}
}

// What is not in the profile is counted by its state, and is in no share; what is not known
// is the remainder.
func TestOutsideAndRemainder(t *testing.T) {
	waiting := explanation.Event{Event: profile.Event{UserID: 17, MessageID: "w", OccurredAt: start, Type: profile.ProductView, ProductID: 1}, State: "pending"}
	if v := explained(t, input(waiting), explanation.Options{}); !v.Equal || v.Outside["pending"] != 1 || v.Folded != 3 {
		t.Errorf("%+v", v)
	}
	pruned := input()
	pruned.Events = pruned.Events[1:]
	v := explained(t, pruned, explanation.Options{Near: 1, Events: 9})
	sum := v.Remainder
	for _, e := range v.Events {
		sum += e.Share
	}
	if v.Equal || !near(sum, 1) || v.Remainder < 0.1 || len(v.Rest) != 1 || v.Rest[0].ProductID != 3 {
		t.Errorf("pruned: %+v", v)
	}
	none := input()
	none.Events, none.Note = nil, "no history"
	if v := explained(t, none, explanation.Options{Near: 1}); !near(v.Remainder, 1) || v.Folded != 0 || v.Note != "no history" {
		t.Errorf("no history: %+v", v)
	}
}

// The catalogue is read once for all lists, and not where none is asked for.
func TestOnePassOverTheCatalogue(t *testing.T) {
	for near, reads := range map[int]int{0: 0, 5: 1} {
		in := input()
		store := &catalogue{}
		in.Store = store
		if explained(t, in, explanation.Options{Near: near, Without: []string{"b", "aa1"}}); store.reads != reads {
			t.Errorf("%d nearest: the catalogue was read %d times, want %d", near, store.reads, reads)
		}
	}
}

func TestRefusals(t *testing.T) {
	for want, change := range map[string]func(*explanation.Input, *explanation.Options){
		"was erased":   func(in *explanation.Input, _ *explanation.Options) { in.Profile.ErasedAt = start },
		"of the model": func(in *explanation.Input, _ *explanation.Options) { in.Profile.Model = "other" },
		"dimensions":   func(in *explanation.Input, _ *explanation.Options) { in.Laws.Dimensions = 3 },
		"API":          func(in *explanation.Input, _ *explanation.Options) { in.Phrases = phrases{errors.New("API")} },
		"--product 9":  func(_ *explanation.Input, o *explanation.Options) { o.Product = 9 },
		"no event of the": func(in *explanation.Input, o *explanation.Options) {
			in.Events, o.Without = nil, []string{explanation.LastSession}
		},
	} {
		in, o := input(), explanation.Options{}
		change(&in, &o)
		if _, err := explanation.New(t.Context(), in, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// A user of many sessions: all are in the JSON, and the text says what it leaves out. Events
// that come to more than what is stored were folded with other settings.
func TestManySessions(t *testing.T) {
	in := input()
	for i := range 20 {
		e := in.Events[1]
		e.MessageID = fmt.Sprint("s", i)
		e.Digest, e.OccurredAt = profile.DigestOf(e.MessageID), start-engine.Millis(i+1)*86_400_000
		in.Events = append(in.Events, e)
	}
	v := explained(t, in, explanation.Options{})
	sum := v.Remainder
	for _, s := range v.Sessions {
		sum += s.Share
	}
	if len(v.Sessions) != 22 || !near(sum, 1) {
		t.Errorf("%d sessions, which come to %v with the remainder", len(v.Sessions), sum)
	}
	var out bytes.Buffer
	v.Print(&cli.Text{W: &out})
	for _, want := range []string{"14 more  (14 events)", "they come to more than the stored profile", "other weights or another decay"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, out.String())
		}
	}
}

// A profile of which nothing is left is explained too: JSON knows no NaN.
func TestNothingIsLeft(t *testing.T) {
	types, err := profile.AddEventTypes([]profile.OwnType{{Name: "explanation_return", Weight: -1}})
	must.OK(t, err)
	in := input()
	in.Laws.Weights[types[0]] = -1
	in.Events = nil
	for _, kind := range []profile.EventType{profile.ProductPurchase, types[0]} {
		in.Events = append(in.Events, explanation.Event{Event: profile.Event{
			UserID: 7, Type: kind, ProductID: 1, OccurredAt: start, MessageID: kind.String(), Digest: profile.DigestOf(kind.String()),
		}})
	}
	in.Profile.Vector, in.Profile.Mass, in.Profile.Updated = []float64{1, 0}, 0, start
	view := explained(t, in, explanation.Options{Events: 5, Near: 2, Product: 1, Without: []string{"explanation_return"}})
	if _, err := json.Marshal(view); err != nil || view.Folded != 2 || len(view.Rest) > 0 {
		t.Errorf("%v: %+v", err, view)
	}
}

// The last write can be left out as a whole, each product says what it counts there, and what
// came to another place is told.
func TestWithoutTheLastWrite(t *testing.T) {
	in := input()
	in.Profile.Applied = in.Profile.Applied.With(1, []profile.AppliedID{profile.DigestOf("aa1").ID(), profile.DigestOf("aa2").ID()}, start, profile.DefaultIDLimits())
	if _, err := explanation.New(t.Context(), input(), explanation.Options{Without: []string{explanation.LastWrite}}); err == nil || !strings.Contains(err.Error(), "keeps no ids of its last write") {
		t.Errorf("without ids: %v", err)
	}
	in.Profile.Applied = in.Profile.Applied.With(2, []profile.AppliedID{profile.DigestOf("b").ID()}, start+1, profile.DefaultIDLimits())
	v := explained(t, in, explanation.Options{Near: 3, Last: 2, Without: []string{explanation.LastWrite}})
	if len(v.WhatIf) != 1 || v.WhatIf[0].Events != 1 || len(v.WhatIf[0].Nearest) != 3 || v.WhatIf[0].Nearest[0].ProductID == 2 {
		t.Fatalf("what if: %+v", v.WhatIf)
	}
	if len(v.Last) != 2 || v.Last[0].MessageID != "b" || v.Last[1].MessageID != "aa2" || v.Last[0].Share <= v.Last[1].Share {
		t.Errorf("the last events: %+v", v.Last)
	}
	moved := map[int32]explanation.Move{}
	for _, m := range explanation.Moves(v.Nearest, v.WhatIf[0].Nearest) {
		moved[m.ProductID] = m
	}
	lamp, mug := moved[2], moved[1]
	if lamp.Newest == nil || lamp.Newest.Events != 1 || lamp.Newest.MessageID != "b" || lamp.Newest.Share < 0.5 || lamp.Place >= lamp.Was || !lamp.Nearer {
		t.Errorf("the lamp: %+v, newest %+v", lamp, lamp.Newest)
	}
	if mug.Was == 0 || mug.Nearer || mug.Newest == nil || math.Abs(mug.Newest.Share) > 1e-9 {
		t.Errorf("the mug: %+v, newest %+v", mug, mug.Newest)
	}
	if gone := explanation.Gone(v.Nearest, v.WhatIf[0].Nearest, 2); len(gone) != 1 || gone[0].ProductID != 1 {
		t.Errorf("gone: %+v", gone)
	}
	if all := explanation.Moves(v.Nearest, nil); all[0].Was != 0 || all[0].Place != 1 {
		t.Errorf("compared with nothing: %+v", all[0])
	}
}

// Reasons that are taken together are those of a recommendation.
func TestReasonsTakenTogether(t *testing.T) {
	in := input(explanation.Event{Event: profile.Event{UserID: 17, MessageID: "c", Digest: profile.DigestOf("c"), OccurredAt: start + 5, Type: profile.ProductView, ProductID: 2}})
	v := explained(t, in, explanation.Options{Near: 3, Together: true})
	var ids []int32
	for _, n := range v.Nearest {
		ids = append(ids, n.ProductID)
	}
	want, err := explanation.Because(t.Context(), in, ids, 0)
	must.OK(t, err)
	for i, n := range v.Nearest {
		if len(n.Because) == 0 || len(n.Because) != len(want[i].Because) {
			t.Fatalf("product %d: %+v, want %+v", n.ProductID, n.Because, want[i].Because)
		}
		for k, part := range n.Because {
			if other := want[i].Because[k]; math.Abs(part.Share-other.Share) > 1e-12 || part.Of != other.Of || part.Events != other.Events {
				t.Errorf("product %d: %+v, want %+v", n.ProductID, part, other)
			}
		}
	}
	if first := v.Nearest[slices.Index(ids, 2)].Because[0]; first.Events != 2 || !strings.HasSuffix(first.Reason(), "% from 2 events of Lamp") {
		t.Errorf("the lamp: %+v, %s", first, first.Reason())
	}
}
