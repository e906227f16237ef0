package main

import (
	"sync/atomic"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/tracing"
	"keyfold/service/profile/partitioner"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
)

// partitionCmd moves events that came without a slot into the partitions.
type partitionCmd struct{}

// Service marks a command that runs until it is told to stop.
func (c *partitionCmd) Service() {}

// Help is the long text.
func (c *partitionCmd) Help() string {
	return `With partitions, keyfold's own programs publish each event by its user's slot. Other publishers
send to the exchange user_events, whose events wait in one common queue: this command publishes them by
slot, with confirms, before it acknowledges them. Malformed ones become dead letters. While the
broker has partitions it drains the single queue used before partitions, too.

Several may run. One of them takes the events of the common queue, and the others wait for it to end.
All of them drain the single queue used before partitions.

Examples:
  keyfold setup --partitions 16
  keyfold partition`
}

// Check judges the address of the broker.
func (c *partitionCmd) Check(a *app.App) error { return a.CheckBroker() }

// Run moves events until it is told to stop; what is under way is confirmed and
// acknowledged before it ends.
func (c *partitionCmd) Run(a *app.App) error {
	a.LogStart("partition")
	return a.WithTracing("keyfold-partition", func(t *tracing.Tracing) error {
		config := partitioner.Config{DSN: a.Servers.RabbitMQ, Names: rabbit.DefaultNames(), Identity: a.Identity("partition")}
		if t != nil {
			config.Follow = t.Moved
		}
		p, err := partitioner.New(config, a.Clock, a.Log)
		if err != nil {
			return err
		}
		return a.WithAdmin(partitioning{p}, func() error { return p.Run(a.Ctx) })
	})
}

// partitioning is a running stage as the admin endpoint sees it.
type partitioning struct{ *partitioner.Partitioner }

func (p partitioning) Figures() []app.Figure {
	consumed := func(of func(*consume.Stats) *atomic.Int64) func() int64 {
		return func() int64 { return p.Consumed(of) }
	}
	return []app.Figure{
		{Name: "events", Read: consumed(func(s *consume.Stats) *atomic.Int64 { return &s.Delivered })},
		{Name: "partitioned", Read: p.Stats.Partitioned.Load},
		{Name: "unpublished", Read: p.Stats.Unpublished},
		{Name: "dead", Read: consumed(func(s *consume.Stats) *atomic.Int64 { return &s.DeadLetters })},
		{Name: "waiting", Gauge: true, Read: consumed(func(s *consume.Stats) *atomic.Int64 { return &s.Unacked })},
	}
}
