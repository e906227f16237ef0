package ledger

import (
	"iter"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine/notify"
)

// Asked returns what a load reads: the users, those whose deferrals are asked for, the
// events, and those of which reports are asked for.
func Asked(asks []notify.Ask) (users, waiting []string, events, reports []uuid.UUID) {
	for i := range asks {
		users = append(users, asks[i].User)
		events = append(events, asks[i].Events...)
		reports = append(reports, asks[i].Reports...)
		if asks[i].Deferrals {
			waiting = append(waiting, asks[i].User)
		}
	}
	return users, waiting, events, reports
}

// Standings returns the answers of a load: of users, of keys by their event_id, of users'
// deferrals, and of reports by event_id.
func Standings(
	asks []notify.Ask, users map[string]notify.Standing, keys map[uuid.UUID]notify.Known, deferred map[string][]notify.Due,
	reported map[uuid.UUID]notify.Reported,
) []notify.Standing {
	all := make([]notify.Standing, len(asks))
	for i := range asks {
		ask := &asks[i]
		all[i] = users[ask.User]
		all[i].Known = make([]notify.Known, len(ask.Events))
		for j, event := range ask.Events {
			all[i].Known[j] = keys[event]
		}
		if ask.Deferrals {
			all[i].Deferred = slices.Clone(deferred[ask.User])
		}
		for _, event := range ask.Reports {
			all[i].Reported = append(all[i].Reported, reported[event])
		}
	}
	return all
}

// InOrder returns the keys of decisions in the order of these, the zero one where there is
// none.
func InOrder(decisions []uuid.UUID, keys []notify.Known) []notify.Known {
	found := make(map[uuid.UUID]notify.Known, len(keys))
	for _, k := range keys {
		found[k.DecisionID] = k
	}
	all := make([]notify.Known, len(decisions))
	for i, id := range decisions {
		all[i] = found[id]
	}
	return all
}

// pageRows is how many records an iteration reads at a time at most.
const pageRows = 256

// Records yields the records of a filter until the first error. read returns at most size
// of those that follow last; nil: the first ones. No transaction is open between pages: one
// would keep old versions of rows, or the file's log, from being removed.
func (f *Filter) Records(read func(last *notify.Record, size int) ([]notify.Decided, error)) iter.Seq2[notify.Decided, error] {
	return func(yield func(notify.Decided, error) bool) {
		left := f.Limit
		for last := (*notify.Record)(nil); ; {
			size := f.PageSize(pageRows, left)
			page, err := read(last, size)
			if err != nil {
				yield(notify.Decided{}, err)
				return
			}
			for _, d := range page {
				if !yield(d, nil) {
					return
				}
			}
			left -= len(page)
			if len(page) < size || f.Limit > 0 && left == 0 {
				return
			}
			last = &page[len(page)-1].Record
		}
	}
}
