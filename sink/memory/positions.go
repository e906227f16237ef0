package memory

import (
	"context"

	"keyfold/engine/profile"
)

// LoadPosition implements [profile.Positions].
func (p *Profiles) LoadPosition(ctx context.Context, stream string) (profile.Position, error) {
	at, _ := p.positions.Load(stream)
	position, _ := at.(profile.Position)
	return position, ctx.Err()
}

// SavePosition implements [profile.Positions].
func (p *Profiles) SavePosition(ctx context.Context, stream string, position profile.Position) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.positions.Store(stream, position)
	return nil
}
