package catalog_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/catalog"
)

// states is what was true of one product, and since when.
type states []struct {
	x     float32 // -1: no such product
	since time.Time
}

// was reports whether x was true at some instant of the last age.
func (h states) was(x float32, age time.Duration) bool {
	from := time.Now().Add(-age)
	for i, s := range h {
		if s.x == x && (i+1 == len(h) || h[i+1].since.After(from)) {
			return true
		}
	}
	return false
}

// Whatever is looked up, changed, broken or waited for: a vector was the
// product's within the TTL, a missing product was missing within 5 s, and an
// error means that the store is failing now.
func TestAnswersAreNeverTooOld(t *testing.T) {
	const ttl, latency = 12 * time.Second, 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		// A bubble's test has no deadline to ask for: hide the method.
		rapid.Check(struct{ testing.TB }{t}, func(r *rapid.T) {
			s := &store{products: map[int32]profile.Product{}}
			c := newCatalog(t, s, func(c *catalog.Config) {
				c.CacheTTL = ttl
				c.Chunk = rapid.IntRange(1, 3).Draw(r, "chunk")
				c.CacheBytes = rapid.SampledFrom([]int64{0, 700, 1 << 20}).Draw(r, "bytes")
			})
			var history [4]states
			for id := range history {
				history[id] = append(history[id], struct {
					x     float32
					since time.Time
				}{-1, time.Now()})
			}
			change := func(id int32, x float32) {
				if x < 0 {
					delete(s.products, id)
				} else {
					s.set(id, x)
				}
				history[id] = append(history[id], struct {
					x     float32
					since time.Time
				}{x, time.Now()})
			}
			next := float32(0)
			anyID := rapid.Int32Range(0, int32(len(history))-1)
			r.Repeat(map[string]func(*rapid.T){
				"set":    func(r *rapid.T) { next++; change(anyID.Draw(r, "id"), next) },
				"delete": func(r *rapid.T) { change(anyID.Draw(r, "id"), -1) },
				"wait": func(r *rapid.T) {
					time.Sleep(rapid.SampledFrom([]time.Duration{1, time.Second, 3 * time.Second, 5*time.Second - 1, 7 * time.Second}).Draw(r, "for"))
				},
				"slow": func(r *rapid.T) { s.latency = rapid.SampledFrom([]time.Duration{0, latency}).Draw(r, "latency") },
				"break": func(r *rapid.T) {
					s.fail = nil
					if rapid.Bool().Draw(r, "broken") {
						s.fail = func([]int32) error { return errors.New("down") }
					}
				},
				"resolve": func(r *rapid.T) {
					ids := rapid.SliceOfNDistinct(anyID, 1, len(history), rapid.ID).Draw(r, "ids")
					began := time.Now()
					answers := c.Resolve(t.Context(), ids)
					took := time.Since(began) // several slow chunks: what was read first has aged
					for i, a := range answers {
						x, h := read(a), history[ids[i]]
						switch {
						case a.Err == nil && !h.was(x, ttl+took):
							r.Fatalf("product %d: %v is older than %v: %v", ids[i], x, ttl, h)
						case errors.Is(a.Err, engine.ErrMissing) && !h.was(-1, catalog.FaultTTL+took):
							r.Fatalf("product %d: missing is older than %v: %v", ids[i], catalog.FaultTTL, h)
						case a.Err != nil && !errors.Is(a.Err, engine.ErrMissing) && s.fail == nil:
							r.Fatalf("product %d: %v from a store that works", ids[i], a.Err)
						}
					}
				},
			})
		})
	})
}
