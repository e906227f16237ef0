package history

import (
	"math/rand/v2"

	"github.com/google/uuid"

	"keyfold/engine"
)

// rng draws; what it draws follows from its seed alone.
type rng struct {
	*rand.Rand
	source *rand.PCG
}

func newRNG() *rng {
	source := rand.NewPCG(0, 0)
	return &rng{rand.New(source), source} //nolint:gosec // histories have to come again
}

func (g *rng) seed(number, stream uint64) { g.source.Seed(number, stream) }

// chance is true in one of n cases.
func (g *rng) chance(n int) bool { return g.IntN(n) == 0 }

// uuid returns a version 4 id.
func (g *rng) uuid() (id uuid.UUID) {
	for i := 0; i < len(id); i += 8 {
		n := g.Uint64()
		for j := range 8 {
			id[i+j] = byte(n >> (8 * j))
		}
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// span returns a time up to a bound, short ones as often as long ones.
func (g *rng) span(bound engine.Millis) engine.Millis {
	switch g.IntN(5) {
	case 0:
		return 0
	case 1:
		return engine.Millis(g.IntN(5))
	case 2:
		return engine.Millis(g.Int64N(int64(min(bound, 60_000)) + 1))
	case 3:
		return engine.Millis(g.Int64N(int64(min(bound, 3_600_000)) + 1))
	}
	return engine.Millis(g.Int64N(int64(bound) + 1))
}

func pick[T any](g *rng, all []T) T { return all[g.IntN(len(all))] }
