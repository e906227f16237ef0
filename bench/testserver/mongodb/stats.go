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
	// Connections accepted, and those open now.
	Connections int64 `bson:"connections"`
	Open        int64 `bson:"open"`
	// Examined documents were compared with a filter: with an index that fits,
	// no more than match.
	Examined int64 `bson:"examined"`
	Returned int64 `bson:"returned"`
	// Written documents were inserted, changed or deleted.
	Written int64 `bson:"written"`
}

type counters struct {
	mu          sync.Mutex
	commands    map[string]int64
	connections atomic.Int64
	examined    atomic.Int64
	returned    atomic.Int64
	written     atomic.Int64
}

func (c *counters) command(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commands == nil {
		c.commands = make(map[string]int64)
	}
	c.commands[name]++
}

func (s *Server) stats() Stats {
	s.mu.Lock()
	open := int64(len(s.conns))
	s.mu.Unlock()
	c := &s.store.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Commands: maps.Clone(c.commands), Connections: c.connections.Load(), Open: open,
		Examined: c.examined.Load(), Returned: c.returned.Load(), Written: c.written.Load(),
	}
}
