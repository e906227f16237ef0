package shard

import "sync"

// mailbox is where submitters leave items for an actor. It has no bound of its
// own: the budget was paid before.
type mailbox[K comparable, V any] struct {
	// wake holds one token while the actor has something to look at.
	wake chan struct{}

	mu       sync.Mutex
	incoming mail[K, V] // guarded by mu
	closed   bool       // guarded by mu; nothing comes after this mail
}

// mail is a run of items for one shard, in order.
type mail[K comparable, V any] struct {
	items  []Item[K, V]
	stamps []int64        // the event clock at each item; empty on the wall clock
	clock  int64          // the event clock after the last: all that follows is no older
	where  []func(K) bool // windows of these keys close once the items are in them
}

// put appends the items of one shard's chain; see [chains]. clock is the event
// clock after the whole chunk. It comes by the same lock as the items: an actor
// that knew a time before the items older than it would close their windows.
func (m *mailbox[K, V]) put(items []Item[K, V], c *byShard, shard int, clock int64) {
	m.mu.Lock()
	m.incoming.clock = clock
	wake := len(m.incoming.items) == 0 && c.first[shard] != end
	for i := c.first[shard]; i != end; i = c.next[i] {
		m.incoming.items = append(m.incoming.items, items[i])
		if len(c.stamps) > 0 {
			m.incoming.stamps = append(m.incoming.stamps, c.stamps[i])
		}
	}
	m.mu.Unlock()
	if wake { // otherwise the caller that put the first item has done it
		m.signal()
	}
}

// take swaps what has come for empty mail, whose room is used again. last
// says that no more will come.
func (m *mailbox[K, V]) take(empty mail[K, V]) (full mail[K, V], last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	full, m.incoming = m.incoming, empty
	return full, m.closed
}

// closeWhere has the windows of some keys closed, with all items put before.
func (m *mailbox[K, V]) closeWhere(key func(K) bool) {
	m.mu.Lock()
	m.incoming.where = append(m.incoming.where, key)
	m.mu.Unlock()
	m.signal()
}

// close says that no more items come.
func (m *mailbox[K, V]) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.signal()
}

// signal makes the actor take a turn.
func (m *mailbox[K, V]) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// emptied returns the mail without its items, nothing of them kept alive.
func (m mail[K, V]) emptied() mail[K, V] {
	clear(m.items)
	clear(m.where)
	return mail[K, V]{items: m.items[:0], stamps: m.stamps[:0], clock: m.clock, where: m.where[:0]}
}

// byShard splits a chunk by shard without moving it: per shard the index of its
// first item, per item the index of the shard's next one.
type byShard struct {
	first, last []int32 // by shard
	next        []int32 // by item
	stamps      []int64 // by item, on the event clock
}

const end = int32(-1)

// reset empties the chains for a chunk of n items.
func (c *byShard) reset(shards, n int) {
	c.first = append(c.first[:0], make([]int32, shards)...)
	c.last = append(c.last[:0], make([]int32, shards)...)
	for i := range c.first {
		c.first[i], c.last[i] = end, end
	}
	if cap(c.next) < n {
		c.next = make([]int32, n)
	}
	c.next = c.next[:n]
	c.stamps = c.stamps[:0]
}

// add puts item i at the end of shard's chain.
func (c *byShard) add(shard, i int) {
	if last := c.last[shard]; last == end {
		c.first[shard] = int32(i)
	} else {
		c.next[last] = int32(i)
	}
	c.last[shard], c.next[i] = int32(i), end
}
