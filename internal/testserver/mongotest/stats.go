package mongotest

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Stats counts what a server has done since its start.
type Stats struct {
	// Commands received, by name; monitoring (hello) included.
	Commands map[string]int64 `bson:"commands"`
	// Examined documents were compared with a filter: with an index that fits,
	// no more than match.
	Examined int64 `bson:"examined"`
	// Broadcasts are the operations on sharded collections that a mongos would send to
	// every shard, by command, collection and the fields of the filter ([WithMongos]).
	Broadcasts map[string]int64 `bson:"broadcasts,omitempty"`
}

type counters struct {
	mu         sync.Mutex
	commands   map[string]int64
	broadcasts map[string]int64
	examined   atomic.Int64
}

func (c *counters) command(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands[name]++
}

func (c *counters) broadcast(shape string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broadcasts[shape]++
}

func (c *counters) stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Commands: maps.Clone(c.commands), Examined: c.examined.Load(), Broadcasts: maps.Clone(c.broadcasts)}
}
