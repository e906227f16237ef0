package shard

// pressure says when open windows hold too much of the budget, and what they
// may keep then. It is pure; waiting is what the open windows of all shards
// hold, demand what the first blocked Submit asks for (0 when none is).
type pressure struct {
	limit  usage
	shards int64
}

// within returns the pressure where the source may bring no more than so many items beside
// those held and those of a blocked Submit.
func (p pressure) within(held, demand, more int64) pressure {
	p.limit.items = max(1, min(p.limit.items, held+demand+more))
	return p
}

// high reports whether windows have to close early: at three quarters of either
// limit, or where a blocked Submit could not get in even if everything that is
// on its way to the handler were gone.
func (p pressure) high(waiting, demand usage) bool {
	if waiting.items == 0 {
		return false
	}
	mark := usage{p.limit.items - p.limit.items/4, p.limit.bytes - p.limit.bytes/4}
	if waiting.items >= mark.items || waiting.bytes >= mark.bytes {
		return true
	}
	return demand.items > 0 && !waiting.plus(demand).within(p.limit)
}

// keep is what the open windows of each shard may go on holding once pressure
// was high: a shard's share of half of the limit, or of what the demand leaves.
// A demand beyond the limit is let in alone: then even a window whose items
// weigh nothing has to go.
func (p pressure) keep(demand usage) usage {
	if !demand.within(p.limit) {
		return usage{}
	}
	return usage{
		items: min(p.limit.items/2, p.limit.items-demand.items) / p.shards,
		bytes: min(p.limit.bytes/2, p.limit.bytes-demand.bytes) / p.shards,
	}
}
