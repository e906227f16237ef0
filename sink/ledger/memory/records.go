package memory

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// Undispatched implements [notify.Ledger].
func (l *Ledger) Undispatched(ctx context.Context, before engine.Millis, n int) ([]notify.Dispatch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []*notify.Known
	for _, k := range l.keys {
		if k.Outcome == notify.Now && !k.Dispatched && k.DecidedAt < before && l.stored(k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b *notify.Known) int {
		return cmp.Or(cmp.Compare(a.DecidedAt, b.DecidedAt), compare(a.EventID, b.EventID))
	})
	return l.dispatches(keys[:min(n, len(keys))]), nil
}

// Dispatches implements [notify.Ledger].
func (l *Ledger) Dispatches(ctx context.Context, keys []notify.Known) ([]notify.Dispatch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var stored []*notify.Known
	for i := range keys {
		if l.stored(&keys[i]) {
			stored = append(stored, &keys[i])
		}
	}
	return l.dispatches(stored), nil
}

// stored reports whether the decision of a key has its event.
func (l *Ledger) stored(k *notify.Known) bool {
	d := l.decisions[k.DecisionID]
	return d != nil && d.Event != nil
}

// dispatches returns the dispatches of keys whose decisions have their events.
func (l *Ledger) dispatches(keys []*notify.Known) (all []notify.Dispatch) {
	met := map[uuid.UUID]bool{}
	for _, k := range keys {
		id, items := k.EventID, []*notify.Decided{l.decisions[k.DecisionID]}
		if k.DigestID != uuid.Nil {
			id, items = k.DigestID, l.items(k)
		}
		if !met[id] {
			met[id] = true
			all = append(all, dispatch(id, items))
		}
	}
	return all
}

// items returns the decisions of the digest that k is of, in the order of Seq.
func (l *Ledger) items(k *notify.Known) (items []*notify.Decided) {
	for _, d := range l.users[k.User].records {
		if d.Record.DigestID == k.DigestID && d.Record.DecisionID == l.keys[d.Record.EventID].DecisionID {
			items = append(items, d)
		}
	}
	return items
}

func dispatch(id uuid.UUID, items []*notify.Decided) notify.Dispatch {
	d := notify.Dispatch{ID: id}
	for _, item := range items {
		d.Records, d.Events = append(d.Records, item.Record), append(d.Events, item.Event)
	}
	return d
}

// Decision returns a record with its event, nil where there is none. Of an erased
// user there is no event.
func (l *Ledger) Decision(ctx context.Context, id uuid.UUID) (*notify.Decided, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.decisions[id]; d != nil {
		decided := *d
		return &decided, ctx.Err()
	}
	return nil, ctx.Err()
}

// Decisions returns the records of ids that are there, each once and in no order, as
// [Ledger.Decision] does.
func (l *Ledger) Decisions(ctx context.Context, ids []uuid.UUID) (all []notify.Decided, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	met := map[uuid.UUID]bool{}
	for _, id := range ids {
		if d := l.decisions[id]; d != nil && !met[id] {
			met[id] = true
			all = append(all, *d)
		}
	}
	return all, ctx.Err()
}

// Records yields the records of a filter, as they are when the iteration begins.
func (l *Ledger) Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error] {
	return func(yield func(notify.Decided, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(notify.Decided{}, err)
			return
		}
		for _, d := range l.find(f) {
			if !yield(d, nil) {
				return
			}
		}
	}
}

func (l *Ledger) find(f ledger.Filter) (found []notify.Decided) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := maps.Values(l.decisions)
	if f.User != "" {
		all = l.own(f.User)
	}
	for d := range all {
		r := &d.Record
		if (f.Event == uuid.Nil || r.EventID == f.Event) &&
			r.DecidedAt >= f.From && (f.To == 0 || r.DecidedAt < f.To) {
			found = append(found, *d)
		}
	}
	slices.SortFunc(found, func(a, b notify.Decided) int {
		order := compare(a.Record.DecisionID, b.Record.DecisionID)
		if f.User != "" || f.Event != uuid.Nil {
			order = cmp.Compare(a.Record.Seq, b.Record.Seq)
		}
		if !f.Oldest {
			order = -order
		}
		return order
	})
	if f.Limit > 0 {
		found = found[:min(f.Limit, len(found))]
	}
	return found
}

// own returns the records of a user.
func (l *Ledger) own(id string) iter.Seq[*notify.Decided] {
	if u := l.users[id]; u != nil {
		return slices.Values(u.records)
	}
	return slices.Values[[]*notify.Decided](nil)
}

// Counts returns how many records of a span have each type, outcome and first reason, in the
// order of these.
func (l *Ledger) Counts(ctx context.Context, in ledger.Span) ([]ledger.Count, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts, met := map[ledger.Count]int64{}, int64(0)
	for _, d := range l.decisions {
		if in.Has(d.Record.DecidedAt) && (in.Most == 0 || met < in.Most) {
			counts[ledger.CountOf(&d.Record)]++
			met++
		}
	}
	all := make([]ledger.Count, 0, len(counts))
	for c, n := range counts {
		c.N = n
		all = append(all, c)
	}
	slices.SortFunc(all, ledger.Count.Compare)
	return all, ctx.Err()
}

// Users returns the number of users with preferences or records, erased ones
// included.
func (l *Ledger) Users(ctx context.Context) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.users)), ctx.Err()
}
