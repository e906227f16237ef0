package repeat

import (
	"errors"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/cure"
	"keyfold/source/vector/rediscache"
)

// Config holds the settings of a [Store].
type Config struct {
	URL      string        // redis:// or rediss://, in the forms of rediscache.Config
	Capacity int           // events that one generation of the filter is sized for
	Full     float64       // part of the capacity at which the next generation is opened
	Window   time.Duration // for which keys, and closed generations, are kept
	Timeout  time.Duration // of each call
	Breaker  breaker.Config
}

// DefaultConfig keeps a day of events, in 28 MB a generation. The URL is missing.
func DefaultConfig() Config {
	c := Config{Capacity: 10_000_000, Full: .7, Window: 24 * time.Hour, Timeout: 80 * time.Millisecond, Breaker: breaker.DefaultConfig()}
	c.Breaker.Failures, c.Breaker.Silence, c.Breaker.ProbeTimeout = 2, time.Second, 5*c.Timeout
	return c
}

// Check also reads the URL.
func (c Config) Check() error {
	client, err := rediscache.Connect(urlSetting, c.URL, c.Timeout)
	if err == nil {
		err = client.Close()
	}
	return errors.Join(err, c.Validate())
}

// The settings that faults of the store name.
const (
	urlSetting      cure.Name = "repeat.Config.URL"
	capacitySetting cure.Name = "repeat.Config.Capacity"
)

// Limits of Capacity: a string of Redis holds 512 MB.
const (
	minCapacity = 1_000
	maxCapacity = 150_000_000
)

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults engine.Faults
	faults.If(c.Capacity < minCapacity || c.Capacity > maxCapacity, "%s is %d: it must be between %d and %d", capacitySetting, c.Capacity, minCapacity, maxCapacity)
	faults.If(c.Full <= 0 || c.Full > 1, "a filter that rotates at %v: it must be above 0 and at most 1", c.Full)
	faults.If(c.Window < time.Second || c.Timeout < time.Millisecond, "keys for %v, calls of %v: at least a second and a millisecond", c.Window, c.Timeout)
	faults = append(faults, c.Breaker.Validate())
	return faults.Err()
}
