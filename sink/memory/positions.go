package memory

import (
	"context"
	"sync"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// positions are those of streams.
type positions struct {
	mu  sync.Mutex
	all map[string]profile.Position // under mu
}

// LoadPosition implements [profile.Positions].
func (p *Profiles) LoadPosition(ctx context.Context, stream string) (profile.Position, error) {
	p.positions.mu.Lock()
	defer p.positions.mu.Unlock()
	return p.positions.all[stream], ctx.Err()
}

// SavePosition implements [profile.Positions].
func (p *Profiles) SavePosition(ctx context.Context, stream string, position profile.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.positions.mu.Lock()
	defer p.positions.mu.Unlock()
	if stored, there := p.positions.all[stream]; there && stored.Rewinds != position.Rewinds {
		return engine.ErrConflict
	}
	p.positions.set(stream, position)
	return nil
}

// Rewind implements [profile.Positions].
func (p *Profiles) Rewind(ctx context.Context, stream string, seen, to profile.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.positions.mu.Lock()
	defer p.positions.mu.Unlock()
	if stored, there := p.positions.all[stream]; there && stored.Rewinds != seen.Rewinds {
		return engine.ErrConflict
	}
	to.Rewinds = seen.Rewinds + 1
	p.positions.set(stream, to)
	return nil
}

func (p *positions) set(stream string, position profile.Position) {
	if p.all == nil {
		p.all = map[string]profile.Position{}
	}
	p.all[stream] = position
}
