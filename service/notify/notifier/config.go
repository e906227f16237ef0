package notifier

import (
	"time"

	"keyfold/engine"
	"keyfold/engine/notify/processor"
	"keyfold/shard"
)

// Config sets a notifier's bounds.
type Config struct {
	Shard     shard.Config
	Processor processor.Config

	Lease     time.Duration // of a claimed deferral
	Poll      time.Duration // between looks for deferrals that are due
	Claim     int           // deferrals that one look leases at most
	Mark      time.Duration // after which confirmed hand-overs are marked, without another commit
	Sweep     time.Duration // between looks for NOWs that were not confirmed
	SweepAge  time.Duration // how old these are at least
	StartWait time.Duration // for the sweep at the start
}

// DefaultConfig returns the settings of a process that was told nothing: without
// windows, so that a delivery is decided as soon as its user is free.
func DefaultConfig() Config {
	c := Config{
		Shard: shard.DefaultConfig(), Processor: processor.DefaultConfig(),
		Lease: time.Minute, Poll: time.Second, Claim: 500,
		Mark: 5 * time.Second, Sweep: time.Minute, SweepAge: time.Minute, StartWait: 10 * time.Second,
	}
	c.Shard.Batching = false
	return c
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	faults := engine.Faults{c.Shard.Validate(), c.Processor.Validate()}
	faults.If(c.Shard.Batching, "a notifier with windows: set Shard.Batching to false")
	faults.If(c.Lease <= 0 || c.Poll <= 0 || c.Mark <= 0 || c.Sweep <= 0 || c.StartWait <= 0 || c.SweepAge < 0,
		"lease %v, poll %v, mark %v, sweep %v, wait at the start %v: each must be above 0", c.Lease, c.Poll, c.Mark, c.Sweep, c.StartWait)
	faults.If(c.Claim < 1, "a claim of %d deferrals: it must be at least 1", c.Claim)
	return faults.Err()
}
