package shard

import "sync/atomic"

// usage is what items weigh against the budget.
type usage struct{ items, bytes int64 }

func (a usage) plus(b usage) usage  { return usage{a.items + b.items, a.bytes + b.bytes} }
func (a usage) minus(b usage) usage { return usage{a.items - b.items, a.bytes - b.bytes} }

// within reports whether neither dimension exceeds the limit's.
func (a usage) within(limit usage) bool {
	return a.items <= limit.items && a.bytes <= limit.bytes
}

// weigh returns the amount of items.
func weigh[K comparable, V any](items []Item[K, V]) usage {
	a := usage{items: int64(len(items))}
	for i := range items {
		a.bytes += items[i].weight()
	}
	return a
}

func (i *Item[K, V]) weight() int64 { return int64(max(0, i.Bytes)) }

// atomicUsage is an amount that goroutines share. Its halves are read and written one
// after the other: a comparison reads one half after the other.
type atomicUsage struct{ items, bytes atomic.Int64 }

func (g *atomicUsage) load() usage { return usage{g.items.Load(), g.bytes.Load()} }

func (g *atomicUsage) store(a usage) {
	g.items.Store(a.items)
	g.bytes.Store(a.bytes)
}

func (g *atomicUsage) add(a usage) {
	g.items.Add(a.items)
	g.bytes.Add(a.bytes)
}
