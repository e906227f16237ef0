package shard

import "sync/atomic"

// amount is what items weigh against the budget.
type amount struct{ items, bytes int64 }

func (a amount) plus(b amount) amount  { return amount{a.items + b.items, a.bytes + b.bytes} }
func (a amount) minus(b amount) amount { return amount{a.items - b.items, a.bytes - b.bytes} }

// within reports whether neither dimension exceeds the limit's.
func (a amount) within(limit amount) bool {
	return a.items <= limit.items && a.bytes <= limit.bytes
}

// weigh returns the amount of items.
func weigh[K comparable, V any](items []Item[K, V]) amount {
	a := amount{items: int64(len(items))}
	for i := range items {
		a.bytes += items[i].weight()
	}
	return a
}

func (i *Item[K, V]) weight() int64 { return int64(max(0, i.Bytes)) }

// gauge is an amount that goroutines share. Its halves are read and written one
// after the other: whoever compares them does so half by half.
type gauge struct{ items, bytes atomic.Int64 }

func (g *gauge) load() amount { return amount{g.items.Load(), g.bytes.Load()} }

func (g *gauge) store(a amount) {
	g.items.Store(a.items)
	g.bytes.Store(a.bytes)
}

func (g *gauge) add(a amount) {
	g.items.Add(a.items)
	g.bytes.Add(a.bytes)
}
