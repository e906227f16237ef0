package answers

import (
	"context"
	"maps"
	"slices"
	"sync"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/service/profile/explanation"
)

// history is what users did until an instant, in memory. It implements [recommend.History].
type history struct {
	mu      sync.RWMutex
	events  []profile.Event // of all users in the order of time, each once
	past    int             // how many of them have happened
	seen    map[int32][]int32
	bought  map[int32][]int32
	counts  map[int32]int64
	counted int // the first event that is in counts
}

func newHistory(events []profile.Event) *history {
	return &history{events: events, seen: map[int32][]int32{}, bought: map[int32][]int32{}, counts: map[int32]int64{}}
}

// advance has all happen that is older than an instant.
func (h *history) advance(at engine.Millis) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ; h.past < len(h.events) && h.events[h.past].OccurredAt < at; h.past++ {
		e := &h.events[h.past]
		if e.ProductID == 0 {
			continue
		}
		h.counts[e.ProductID]++
		add(h.seen, e)
		if e.Type == profile.ProductPurchase {
			add(h.bought, e)
		}
	}
}

func add(to map[int32][]int32, e *profile.Event) {
	if !slices.Contains(to[e.UserID], e.ProductID) {
		to[e.UserID] = append(to[e.UserID], e.ProductID)
	}
}

// Products implements [recommend.History].
func (h *history) Products(_ context.Context, user int32, bought bool) ([]int32, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if bought {
		return slices.Clone(h.bought[user]), nil
	}
	return slices.Clone(h.seen[user]), nil
}

// Counts implements [recommend.History]. All calls must name the same number of days.
func (h *history) Counts(_ context.Context, days int) (map[int32]int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.past == 0 {
		return nil, nil
	}
	since := h.events[h.past-1].OccurredAt - engine.Millis(days)*24*3600*1000
	for ; h.events[h.counted].OccurredAt <= since; h.counted++ {
		id := h.events[h.counted].ProductID
		if h.counts[id]--; h.counts[id] <= 0 {
			delete(h.counts, id)
		}
	}
	return maps.Clone(h.counts), nil
}

// Events implements [recommend.History]: no request asks for reasons.
func (h *history) Events(context.Context, int32, *profile.Profile) ([]explanation.Event, string, error) {
	return nil, "", nil
}
