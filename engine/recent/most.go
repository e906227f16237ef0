package recent

import (
	"sync"
	"time"

	"keyfold/engine"
)

// Half is the time after which a [Most] begins to count anew. What it tells is of the last Half to
// two of them.
const Half = 5 * time.Minute

// places is how many keys a count keeps. A key with more than 1 in places+1 of the events is
// always kept.
const places = 8

// Most knows the key with most of the newest events. Its zero value has seen none.
type Most[K comparable] struct {
	mu          sync.Mutex
	now, before count[K]
}

// count keeps the keys that may have most events, with how many they had at least.
//
// Source: J. Misra, D. Gries, "Finding repeated elements", Science of Computer Programming 2 (1982):
// with k places a count is too low by at most 1 in k+1 of all.
type count[K comparable] struct {
	began engine.Millis
	all   int64
	keys  [places]struct {
		key K
		n   int64 // 0: the place is free
	}
}

// Add counts n events of a key.
func (m *Most[K]) Add(key K, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(engine.Now())
	m.now.add(key, n)
}

// Of returns the key with most events, how many it had at least, and how many all had. least is how
// many events make a count worth telling; all is 0 where fewer came.
func (m *Most[K]) Of(least int64) (key K, n, all int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(engine.Now())
	c := &m.now
	if c.all < least {
		c = &m.before
	}
	if c.all < least {
		return key, 0, 0
	}
	for i := range c.keys {
		if c.keys[i].n > n {
			key, n = c.keys[i].key, c.keys[i].n
		}
	}
	return key, n, c.all
}

// turn begins a new count where the one at work is old.
func (m *Most[K]) turn(now engine.Millis) {
	switch age := now - m.now.began; {
	case age >= 2*millis(Half):
		m.before, m.now = count[K]{}, count[K]{began: now}
	case age >= millis(Half):
		m.before, m.now = m.now, count[K]{began: now}
	}
}

func (c *count[K]) add(key K, n int64) {
	c.all += n
	low := 0
	for i := range c.keys {
		if c.keys[i].n > 0 && c.keys[i].key == key {
			c.keys[i].n += n
			return
		}
		if c.keys[i].n < c.keys[low].n {
			low = i
		}
	}
	// All places together lose as much as this key brings, until one is free for the rest of it.
	lost := min(n, c.keys[low].n)
	for i := range c.keys {
		c.keys[i].n -= lost
	}
	if n > lost {
		c.keys[low].key, c.keys[low].n = key, n-lost
	}
}
