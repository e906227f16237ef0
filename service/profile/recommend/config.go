package recommend

import (
	"time"

	"keyfold/engine"
	"keyfold/engine/cure"
)

// Config holds the settings of a [Recommender].
type Config struct {
	// Mix is the second vector's share where a request names none.
	Mix float64
	// KnownBytes bounds the profiles that are kept for when the store does not answer.
	KnownBytes int64
	// StaleFor is how long such a profile is used; 0: not at all.
	StaleFor time.Duration
	// PopularDays is how many days before the newest event popularity is counted over, and
	// PopularTTL how long a count is used; 0: for one request.
	PopularDays int
	PopularTTL  time.Duration
}

// DefaultConfig returns the settings of a program that was told nothing: an even mix, the
// last seven days, which "Evidence" measured, and known profiles for ten minutes.
func DefaultConfig() Config {
	return Config{Mix: 0.5, KnownBytes: 64 << 20, StaleFor: 10 * time.Minute, PopularDays: 7, PopularTTL: time.Minute}
}

// The settings that faults name.
const (
	mixSetting   cure.Name = "recommend.Config.Mix"
	staleSetting cure.Name = "recommend.Config.StaleFor"
	daysSetting  cure.Name = "recommend.Config.PopularDays"
)

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults engine.Faults
	faults.If(!(c.Mix >= 0 && c.Mix <= 1), "%s is %v: it must be between 0 and 1", mixSetting, c.Mix)
	faults.If(c.KnownBytes < 0, "KnownBytes is %d: it must not be negative", c.KnownBytes)
	faults.If(c.StaleFor < 0, "%s is %v: it must not be negative", staleSetting, c.StaleFor)
	faults.If(c.PopularDays < 1, "%s is %d: it must be at least 1", daysSetting, c.PopularDays)
	return faults.Err()
}
