package sinktest

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// model is what a store must look like: a map, and nothing else.
type model map[int32]*profile.Profile

// swap says what Swap must answer, and does it.
func (m model) swap(p *profile.Profile) error {
	stored, exists := m[p.UserID]
	due := int32(1)
	if exists {
		due = stored.Version + 1
	}
	if stored.Erased() || p.Version != due {
		return engine.ErrConflict
	}
	m[p.UserID] = p
	return nil
}

func (m model) forget(user int32, at engine.Millis) {
	stored, exists := m[user]
	switch {
	case !exists:
		m[user] = &profile.Profile{UserID: user, Version: 1, ErasedAt: at}
	case !stored.Erased():
		m[user] = &profile.Profile{UserID: user, Version: stored.Version + 1, ErasedAt: at}
	}
}

// testModel runs random sequences of operations on the store and on the model.
// The users of each sequence are its own, as the store is one for all.
func testModel(t *testing.T, s Store) {
	ctx := context.Background()
	base := int32(0)
	rapid.Check(t, func(rt *rapid.T) {
		base += 10
		m := model{}
		users := rapid.SliceOfNDistinct(rapid.Int32Range(base, base+5), 1, 6, rapid.ID[int32])
		rt.Repeat(map[string]func(*rapid.T){
			"swap": func(rt *rapid.T) {
				var (
					batch []*profile.Profile
					want  []error
				)
				for _, user := range users.Draw(rt, "users") {
					p := s.profile(user, drawVersion(rt, m[user]))
					batch, want = append(batch, p), append(want, m.swap(p))
				}
				s.swap(rt, want, batch...)
			},
			"forget": func(rt *rapid.T) {
				user, at := rapid.Int32Range(base, base+5).Draw(rt, "user"), engine.Millis(rapid.IntRange(1, 9).Draw(rt, "at"))
				m.forget(user, at)
				if err := s.Forget(ctx, user, at); err != nil {
					rt.Fatal(err)
				}
			},
			"delete": func(rt *rapid.T) {
				user := rapid.Int32Range(base, base+5).Draw(rt, "user")
				delete(m, user)
				if err := s.Delete(ctx, user); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) {
				all := []int32{base + 5, base + 1, base + 3, base, base + 4, base + 2}
				for i, got := range s.loadAll(rt, all...) {
					expectEqual(rt, got, m[all[i]])
				}
			},
		})
	})
}

// drawVersion returns a version to write: mostly the one that is due.
func drawVersion(rt *rapid.T, stored *profile.Profile) int32 {
	due := int32(1)
	if stored != nil {
		due = stored.Version + 1
	}
	return max(1, due+rapid.SampledFrom([]int32{0, 0, 0, 0, -1, 1, 7}).Draw(rt, "off by"))
}
