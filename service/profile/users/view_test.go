package users

import (
	"bytes"
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/source/catalog"
)

// Where no product can be compared with, the view says so, unless none was asked for.
func TestViewWithoutProducts(t *testing.T) {
	for asked, want := range map[int]bool{0: false, 5: true} {
		var out bytes.Buffer
		p := &ProfileView{Profile: &profile.Profile{UserID: 7, Version: 1}, asked: asked}
		console := cli.Console{Streams: cli.Streams{Stdout: &out}}
		if err := console.Emit(nil, p.Print); err != nil || strings.Contains(out.String(), "no product with a vector") != want {
			t.Errorf("%d asked for: %v, %s", asked, err, &out)
		}
		p.Near = []catalog.Neighbour{{}}
		if out.Reset(); console.Emit(nil, p.Print) != nil || strings.Contains(out.String(), "no product with a vector") {
			t.Errorf("with a product: %s", &out)
		}
	}
}

// What is nearest to a mix of the two vectors is told by the mix; a profile without a second
// one says what gives it one.
func TestViewOfAMix(t *testing.T) {
	p := &profile.Profile{UserID: 7, Version: 1, Vector: []float64{1, 0}, Short: profile.Short{Vector: []float64{0, 1}, Mass: 0.5, HalfLife: time.Minute}}
	store := oneUser{p}
	for mix, want := range map[float64][]int32{0: {1, 2}, 0.4: {1, 2}, 0.6: {2, 1}, 1: {2, 1}} {
		v, err := NewProfileView(t.Context(), store, 7, 2, mix, nil)
		if err != nil || len(v.Near) != 2 || v.Near[0].Product.ID != want[0] || v.Near[1].Product.ID != want[1] {
			t.Errorf("mix %v: %+v, %v", mix, v, err)
		}
	}
	v, err := NewProfileView(t.Context(), store, 7, 2, 0.25, nil)
	must.OK(t, err)
	var out bytes.Buffer
	console := cli.Console{Streams: cli.Streams{Stdout: &out}}
	if err := console.Emit(nil, v.Print); err != nil || !strings.Contains(out.String(), "half-life 1m0s, mass 0.5000, cosine to the first 0.000") ||
		!strings.Contains(out.String(), "0.25 x the second vector + 0.75 x the first") {
		t.Errorf("%v\n%s", err, &out)
	}
	if d := DocumentOf(p); len(d.EmbeddingShort) != 2 || d.MassShort != 0.5 || d.ShortHalfLife != 60 {
		t.Errorf("exported as %+v", d)
	}
	p.Short = profile.Short{}
	if _, err := NewProfileView(t.Context(), store, 7, 2, 0.25, nil); err == nil || !strings.Contains(err.Error(), "no second vector") {
		t.Errorf("without a second vector: %v", err)
	}
}

// oneUser is a store with one profile and a product along each axis.
type oneUser struct{ p *profile.Profile }

func (s oneUser) Load(context.Context, []int32) ([]*profile.Profile, error) {
	return []*profile.Profile{s.p}, nil
}

func (oneUser) Products(context.Context, []int32) ([]profile.Product, error) { return nil, nil }

func (oneUser) ProductStreams(context.Context) []iter.Seq2[profile.Product, error] {
	return []iter.Seq2[profile.Product, error]{func(yield func(profile.Product, error) bool) {
		_ = yield(profile.Product{ID: 1, Vector: []float32{1, 0}}, nil) && yield(profile.Product{ID: 2, Vector: []float32{0, 1}}, nil)
	}}
}

// An event that the profile has is folded, though its verdict was not stored yet when it was read.
func TestViewOfAnEventWhoseVerdictIsNotStored(t *testing.T) {
	p := &profile.Profile{UserID: 7, Version: 1, Vector: []float64{1, 0}}
	p.Applied = p.Applied.With(1, []profile.AppliedID{profile.DigestOf("a").ID()}, 1, profile.DefaultIDLimits())
	waits := func(id string) Event {
		return Event{Event: profile.Event{MessageID: id, Digest: profile.DigestOf(id), Type: profile.Search, Phrase: "x"}, State: "pending", Waits: true}
	}
	v, err := NewProfileView(t.Context(), oneUser{p}, 7, 0, 0, []Event{waits("a"), waits("b")})
	if err != nil || v.Events[0].Waits || v.Events[0].State != Folded || !v.Events[1].Waits || v.Events[1].State != "pending" || len(v.Near) != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
