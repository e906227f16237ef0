package users

import (
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Document is a profile in the field names of the document store. The ids that
// were folded are the store's own business; only their floor is shown.
type Document struct {
	UserID         int32      `json:"user_id"`
	Embedding      []float64  `json:"embedding,omitempty"`
	DimensionCount int        `json:"dimension_count,omitempty"`
	LastUpdated    *time.Time `json:"last_updated,omitempty"`
	EventCount     int64      `json:"event_count"`
	LastEventType  string     `json:"last_event_type,omitempty"`
	CreatedAt      *time.Time `json:"created_at,omitempty"`
	UpdatedAt      *time.Time `json:"updated_at,omitempty"`
	Version        int32      `json:"version"`
	Mass           float64    `json:"mass"`
	History        string     `json:"history,omitempty"`
	EmbeddingModel string     `json:"embedding_model,omitempty"`
	AppliedFloor   *time.Time `json:"applied_floor,omitempty"`
	ErasedAt       *time.Time `json:"erased_at,omitempty"`

	// Of the second vector, where there is one; the half-life in seconds.
	EmbeddingShort []float64 `json:"embedding_short,omitempty"`
	MassShort      float64   `json:"mass_short,omitempty"`
	ShortHalfLife  float64   `json:"short_half_life,omitempty"`
}

// DocumentOf returns the document of a profile.
func DocumentOf(p *profile.Profile) Document {
	return Document{
		UserID:         p.UserID,
		Embedding:      p.Vector,
		DimensionCount: len(p.Vector),
		LastUpdated:    instant(p.Updated),
		EventCount:     p.EventCount,
		LastEventType:  p.LastType.String(),
		CreatedAt:      instant(p.CreatedAt),
		UpdatedAt:      instant(p.WrittenAt),
		Version:        p.Version,
		Mass:           p.Mass,
		History:        string(p.History),
		EmbeddingModel: p.Model,
		AppliedFloor:   instant(p.Applied.Floor),
		ErasedAt:       instant(p.ErasedAt),
		EmbeddingShort: p.Short.Vector,
		MassShort:      p.Short.Mass,
		ShortHalfLife:  p.Short.HalfLife.Seconds(),
	}
}

// instant is nil for the zero value, which stands for "never" in a profile.
func instant(m engine.Millis) *time.Time {
	if m == 0 {
		return nil
	}
	t := m.Time()
	return &t
}
