package profile

import (
	"math"
	"time"

	"keyfold/engine"
	"keyfold/engine/cure"
)

// History says what mass a profile has when an event is folded into it.
type History string

const (
	// Mass keeps the stored mass: the profile is the normalised sum of every
	// event at weight x exp(-lambda age), whatever the order or the batching.
	Mass History = "mass"
	// UnitMass takes the mass as 1 at every event: the published formula
	// (profile x decay + event x weight)/(decay + weight), normalised. It
	// depends on the order of the events.
	UnitMass History = "unit"
)

// Config holds the laws' settings.
type Config struct {
	Dimensions int     // components of every vector
	Lambda     float64 // decay per day, >= 0
	History    History
	Weights    Weights
	Model      string // name of what makes the vectors
	// ShortHalfLife is that of a profile's second vector; 0: profiles have none.
	ShortHalfLife time.Duration
	// IDs say which ids of folded events a profile keeps.
	IDs IDLimits
}

// DefaultConfig returns the settings of a worker that was told nothing: 1536
// dimensions, a 30-day half-life, ids kept for a day.
func DefaultConfig() Config {
	return Config{
		Dimensions: 1536,
		Lambda:     0.023,
		History:    Mass,
		Weights:    DefaultWeights(),
		Model:      "text-embedding-3-small",
		IDs:        DefaultIDLimits(),
	}
}

// The settings that faults name.
const (
	retentionSetting cure.Name = "profile.IDLimits.Retention"
	holdSetting      cure.Name = "breaker.Config.HoldMax"
	delaySetting     cure.Name = "shard.Config.MaxDelay"
)

// MaxDimensions is above every embedding model in use and keeps a profile far
// below the document limit of every store.
const MaxDimensions = 16384

// Validate reports every fault at once, by the names of the settings.
func (c Config) Validate() error {
	var faults engine.Faults
	faults.If(c.Dimensions < 1 || c.Dimensions > MaxDimensions, "Dimensions is %d: it must be between 1 and %d", c.Dimensions, MaxDimensions)
	faults.If(!(c.Lambda >= 0) || math.IsInf(c.Lambda, 0), "Lambda is %v: it must be a finite number of at least 0 (per day)", c.Lambda)
	faults.If(c.History != Mass && c.History != UnitMass, "History is %q: it must be %q or %q", c.History, Mass, UnitMass)
	c.Weights.validate(&faults)
	c.validateShort(&faults)
	faults.If(c.IDs.Retention < 0, "%s is %v: it must not be negative", retentionSetting, c.IDs.Retention)
	faults.If(c.IDs.Retention >= 0 && c.IDs.Retention < c.IDs.Horizon,
		"%s is %v: it must be at least %v, within which a broker may deliver an event again "+
			"(it follows from %s and %s)", retentionSetting, c.IDs.Retention, c.IDs.Horizon, holdSetting, delaySetting)
	return faults.Err()
}
