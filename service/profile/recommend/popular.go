package recommend

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"keyfold/engine/profile"
)

// countTimeout bounds a count, which no request's end stops.
const countTimeout = time.Minute

// popularity is how many events each product had lately. One count is made at a time. The
// request that begins it waits for it, and so do all others until the first one succeeded;
// later ones have the last count meanwhile.
type popularity struct {
	mu   sync.Mutex
	last *counts   // nil: not known yet
	at   time.Time // of the end of the last count
	now  *count    // under way; nil: none
}

// count is one that is made; err is set before done is closed.
type count struct {
	done chan struct{}
	err  error
}

// counts are those of one time. They are only read.
type counts struct {
	ordered []counted // the most first
	events  map[int32]int64
}

type counted struct {
	id     int32
	events int64
}

// get returns the counts, which are at most PopularTTL old where the history answers.
func (p *popularity) get(ctx context.Context, history History, c Config) (*counts, error) {
	p.mu.Lock()
	now := p.now
	if p.last != nil && (now != nil || time.Since(p.at) < c.PopularTTL) {
		defer p.mu.Unlock()
		return p.last, nil
	}
	if now == nil {
		now = p.begin(ctx, history, c)
	}
	p.mu.Unlock()
	var err error
	select {
	case <-now.done:
		err = now.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil {
		return p.last, nil // after a failure the next one to ask after the time tries again
	}
	return nil, err
}

// ready returns the counts as they are known, nil where they are not, and waits for none: where
// they are old it has them made. With a PopularTTL of 0 none is ever known before it is asked for.
func (p *popularity) ready(ctx context.Context, history History, c Config) *counts {
	if history == nil {
		return nil
	}
	if c.PopularTTL == 0 {
		last, err := p.get(ctx, history, c)
		if err != nil {
			return nil
		}
		return last
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil && time.Since(p.at) >= c.PopularTTL {
		p.begin(ctx, history, c)
	}
	return p.last
}

// begin has a count made. The lock is held.
func (p *popularity) begin(ctx context.Context, history History, c Config) *count {
	p.now = &count{done: make(chan struct{})}
	go p.count(context.WithoutCancel(ctx), p.now, history, c.PopularDays)
	return p.now
}

// count counts. It goes on where the request that began it is given up: otherwise clients that
// wait for less than a count takes would never have an answer.
func (p *popularity) count(ctx context.Context, now *count, history History, days int) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	events, err := history.Counts(ctx, days)
	last := &counts{ordered(events), events}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.last = last
	}
	p.at, p.now, now.err = time.Now(), nil, err
	close(now.done)
}

func ordered(events map[int32]int64) []counted {
	all := make([]counted, 0, len(events))
	for id, events := range events {
		all = append(all, counted{id, events})
	}
	slices.SortFunc(all, func(a, b counted) int { return cmp.Or(cmp.Compare(b.events, a.events), cmp.Compare(a.id, b.id)) })
	return all
}

// fillPopular answers with what had the most events lately.
func (r *Recommender) fillPopular(ctx context.Context, a *Answer, o Options, skip map[int32]bool, why string) error {
	a.Basis, a.Products, a.why = ByPopularity, []Product{}, why
	if r.ports.History == nil {
		a.Note = "the user " + why + ", and what is popular is not known without the history of events"
		return nil
	}
	popular, err := r.popular.get(ctx, r.ports.History, r.config)
	if err != nil {
		return ofHistory(err)
	}
	for some := range slices.Chunk(popular.ordered, max(2*o.K, 16)) {
		known, err := r.products(ctx, some)
		if err != nil {
			return err
		}
		for _, c := range some {
			p, ok := known[c.id]
			if !ok || skip[c.id] || o.Category != "" && p.Category != o.Category {
				continue
			}
			a.Products = append(a.Products, Product{ID: p.ID, Name: p.Name, Category: p.Category, Score: float64(c.events)})
			if len(a.Products) == o.K {
				return nil
			}
		}
	}
	return nil
}

// products returns those of the counted ones that can be recommended, by id.
func (r *Recommender) products(ctx context.Context, some []counted) (map[int32]profile.Product, error) {
	ids := make([]int32, len(some))
	for i, c := range some {
		ids[i] = c.id
	}
	all, err := r.ports.Products.Products(ctx, ids)
	known := make(map[int32]profile.Product, len(all))
	for _, p := range all {
		known[p.ID] = p
	}
	return known, err
}
