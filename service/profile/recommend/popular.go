package recommend

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// popularity is how many events each product had lately. Requests wait for the first count;
// later ones have the last count while one of them counts anew.
type popularity struct {
	first sync.Mutex // held during the first count
	mu    sync.Mutex
	last  []counted // the most first
	known bool
	busy  bool
	at    time.Time // of the last count
}

type counted struct {
	id     int32
	events int64
}

// get returns the counts, which are at most PopularTTL old where the history answers.
func (p *popularity) get(ctx context.Context, history History, c Config) ([]counted, error) {
	p.mu.Lock()
	last, known := p.last, p.known
	mine := !p.busy && time.Since(p.at) >= c.PopularTTL
	if known && mine {
		p.busy = true
	}
	p.mu.Unlock()
	if known && !mine {
		return last, nil
	}
	if !known {
		p.first.Lock()
		defer p.first.Unlock()
		p.mu.Lock()
		last, known = p.last, p.known
		p.mu.Unlock()
		if known {
			return last, nil
		}
	}
	counts, err := history.Counts(ctx, c.PopularDays)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy, p.at = false, time.Now()
	if err != nil && known {
		return last, nil // the next one to ask after the time tries again
	}
	if err != nil {
		return nil, err
	}
	p.last, p.known = ordered(counts), true
	return p.last, nil
}

func ordered(counts map[int32]int64) []counted {
	all := make([]counted, 0, len(counts))
	for id, events := range maps.All(counts) {
		all = append(all, counted{id, events})
	}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Or(cmp.Compare(b.events, a.events), cmp.Compare(a.id, b.id)) })
	return all
}

// fillPopular answers with what had the most events lately.
func (r *Recommender) fillPopular(ctx context.Context, a *Answer, o Options, skip map[int32]bool) error {
	a.Basis, a.Products = ByPopularity, []Product{}
	if r.ports.History == nil {
		a.Note = "the user has no profile, and what is popular is not known without the history of events"
		return nil
	}
	counts, err := r.popular.get(ctx, r.ports.History, r.config)
	if err != nil {
		return err
	}
	for _, c := range counts {
		if len(a.Products) == o.K {
			break
		}
		item, known := r.ports.Products.Item(c.id)
		if !known || skip[c.id] || o.Category != "" && item.Category != o.Category {
			continue
		}
		a.Products = append(a.Products, Product{ID: item.ID, Name: item.Name, Category: item.Category, Score: float64(c.events)})
	}
	return nil
}
