package outbox

import (
	"context"
	"time"

	"keyfold/engine"
)

// Streams publishes to streams whose broker keeps, of every reference, the number of the last
// group that a stream has taken. A group that comes again under a number that is not higher
// is dropped, and confirmed: so no row stands twice in a stream, whatever became of the
// process that sent it first.
type Streams interface {
	// Last returns the stream that takes a shard's events, and the number of the last group
	// that it has of a reference; 0: none. ctx has a deadline.
	Last(ctx context.Context, shard int, reference string) (stream string, number int64, err error)
	// PublishGroups publishes groups, those of one reference in the order of their numbers,
	// none behind one that was not sent, and awaits the broker's answer for each. An answer of
	// nil is the broker's word that it keeps the group. The result is aligned with groups:
	//
	//	nil                  the stream has the group
	//	[engine.ErrUnknown]  it may have it
	//	a permanent error    it can never be published
	//	all else             it was not published
	//
	// It is called from several goroutines, of which one at a time has a shard's groups. ctx
	// has a deadline.
	PublishGroups(ctx context.Context, groups []Group) []error
}

// Group is what a stream takes as a whole.
type Group struct {
	Shard     int
	Stream    string
	Reference string
	Number    int64
	Rows      []Row
}

// Bounds of a group: a broker's frame holds it.
const (
	groupRows  = 125
	groupBytes = 256 << 10
)

// grouped cuts rows into groups, by shard, behind each shard's last number. A row that holds
// no event is in none.
func grouped(rows []stored, numbers map[int]*numbers) (all []Group) {
	byShard := map[int][]Row{}
	for i := range rows {
		if rows[i].fault == nil {
			byShard[rows[i].shard] = append(byShard[rows[i].shard], rows[i].Row)
		}
	}
	for shard, rows := range byShard {
		n := numbers[shard]
		next := max(n.number, n.last)
		for len(rows) > 0 {
			taken := leading(rows)
			next++
			all = append(all, Group{Shard: shard, Stream: n.stream, Reference: n.reference, Number: next, Rows: rows[:taken]})
			rows = rows[taken:]
		}
	}
	return all
}

// leading returns how many of the rows the next group takes.
func leading(rows []Row) (n int) {
	for bytes := 0; n < min(len(rows), groupRows); n++ {
		if bytes += len(rows[n].Body); bytes > groupBytes && n > 0 {
			break
		}
	}
	return n
}

// highest returns the highest number of each shard's groups.
func highest(groups []Group) map[int]int64 {
	numbers := map[int]int64{}
	for i := range groups {
		numbers[groups[i].Shard] = groups[i].Number // they rise
	}
	return numbers
}

// runPlan publishes what was noted of a batch. What does not go out now stays noted.
func (w *rounds) runPlan(ctx, work context.Context, p plan) {
	w.numbers = p.numbers
	w.fresh = nil // noted is tried
	w.setUnreadableAside()
	errs := w.publishGroups(ctx, work, p)
	now := time.Now()
	for i := range p.groups {
		group := &p.groups[i]
		if i >= len(errs) {
			delete(w.numbers, group.Shard)
			continue
		}
		for k := range group.Rows {
			w.judge(&group.Rows[k], errs[i], now)
		}
		if errs[i] != nil && engine.KindOf(errs[i]) != engine.Permanent {
			delete(w.numbers, group.Shard)
		}
	}
}

// setUnreadableAside sets all rows aside that hold no event: no later round has them.
func (w *rounds) setUnreadableAside() {
	for i := range w.users {
		for k := range w.users[i].rows {
			if row := &w.users[i].rows[k]; row.fault != nil {
				w.fail(&row.Row, setAside, row.fault)
			}
		}
	}
}

// publishGroups returns the answers for groups, none where they were not sent.
func (w *rounds) publishGroups(ctx, work context.Context, p plan) []error {
	r, rows := w.relay, 0
	for i := range p.groups {
		rows += len(p.groups[i].Rows)
	}
	if rows == 0 {
		return nil
	}
	// Another batch's rows may be more than a lease has time for at this one's rate.
	if !p.resumed && r.limiter.WaitN(ctx, rows) != nil {
		return nil // ctx ended
	}
	if !time.Now().Before(w.until) {
		w.stop = errFrozen
		return nil
	}
	return r.timed(work, rows, func(ctx context.Context) []error { return r.streams.PublishGroups(ctx, p.groups) })
}
