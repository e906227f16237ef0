package vector

import (
	"context"
	"errors"
	"sync"
	"time"

	"keyfold/engine"
)

// gather lets concurrent callers share requests. A phrase is a flight from the
// first caller that wants it until its answer: whoever wants it in between
// joins. Flights wait for company as [Gathering] says, then leave in batches;
// a batch is one look into the shared cache and at most one request.
//
// The lock guards the maps only: no call to the outside is made under it.
type gather struct {
	config Gathering
	owner  *Phrases
	shared Cache // may be nil

	// Batches work under this context: no single caller's, as many wait for
	// one answer, and it is kept even if nobody waits any more.
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	flights map[string]*flight // under mu: without an answer yet
	pending []*flight          // under mu: those of them that have not left, oldest first
	busy    int                // under mu: batches under way
	timer   *time.Timer        // set under mu: the moment the pending ones leave
}

type flight struct {
	text    string
	joined  time.Time     // when its first caller came
	waiters int           // under the gather's lock
	done    chan struct{} // closed when there is an answer
	answer  engine.Resolved
}

var errClosed = errors.New("the phrases' port is closed")

func newGather(config Gathering, owner *Phrases, shared Cache) *gather {
	g := &gather{config: config, owner: owner, shared: shared, flights: map[string]*flight{}}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.timer = time.AfterFunc(time.Hour, g.tick)
	g.timer.Stop()
	return g
}

func (g *gather) close() {
	g.cancel(errClosed)
	g.mu.Lock()
	g.timer.Stop()
	left := g.pending
	g.pending = nil
	g.mu.Unlock()
	for _, f := range left {
		g.land(f, engine.Resolved{Err: errClosed})
	}
	g.wg.Wait()
}

// each answers every text, or ctx's error for those that have no answer when it
// ends.
func (g *gather) each(ctx context.Context, texts []string, answer func(string, engine.Resolved)) {
	for _, f := range g.join(texts) {
		select {
		case <-f.done:
		case <-ctx.Done():
			if !g.leave(f) {
				answer(f.text, engine.Resolved{Err: context.Cause(ctx)})
				continue
			}
		}
		answer(f.text, f.answer)
	}
}

// join returns a flight per text.
func (g *gather) join(texts []string) []*flight {
	now := time.Now()
	flights := make([]*flight, len(texts))
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, text := range texts {
		f, ok := g.flights[text]
		if ok {
			g.owner.stats.Joined.Add(1)
		} else {
			f = g.begin(text, now)
		}
		f.waiters++
		flights[i] = f
	}
	g.dispatch(now)
	return flights
}

// begin makes a flight, under the lock. An answer is in the cache before its
// flight ends, so that a phrase without a flight either is there or was never
// answered.
func (g *gather) begin(text string, now time.Time) *flight {
	f := &flight{text: text, joined: now, done: make(chan struct{})}
	if unit := g.owner.cache.get(text); unit != nil {
		g.owner.stats.Hits.Add(1)
		f.answer.Vector = unit
		close(f.done)
		return f
	}
	if g.ctx.Err() != nil {
		f.answer.Err = errClosed
		close(f.done)
		return f
	}
	g.flights[text] = f
	g.pending = append(g.pending, f)
	return f
}

// leave ends a caller's wait; true: there is an answer after all.
func (g *gather) leave(f *flight) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-f.done:
		return true
	default:
		g.owner.stats.Left.Add(1)
		f.waiters--
		return false
	}
}

// dispatch lets leave what is full or due, and sets the timer for the rest. It
// runs under the lock.
func (g *gather) dispatch(now time.Time) {
	for len(g.pending) > 0 && g.busy < g.config.Requests {
		if wait := g.due().Sub(now); wait > 0 && len(g.pending) < g.config.Inputs {
			g.timer.Reset(wait)
			return
		}
		if batch := g.take(); len(batch) > 0 {
			g.busy++
			g.wg.Go(func() { g.run(batch) })
		}
	}
}

// due is when the oldest pending flight has waited long enough.
func (g *gather) due() time.Time {
	if g.busy == 0 {
		return g.pending[0].joined.Add(g.config.Linger)
	}
	return g.pending[0].joined.Add(g.config.Hold)
}

// take removes a batch from the pending ones. A phrase nobody waits for any
// more is not asked for.
func (g *gather) take() []*flight {
	n := min(len(g.pending), g.config.Inputs)
	batch := make([]*flight, 0, n)
	for _, f := range g.pending[:n] {
		if f.waiters == 0 {
			delete(g.flights, f.text)
			continue
		}
		batch = append(batch, f)
	}
	clear(g.pending[:n])
	if g.pending = g.pending[n:]; len(g.pending) == 0 {
		g.pending = nil
	}
	return batch
}

func (g *gather) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() == nil {
		g.dispatch(time.Now())
	}
}

// run brings a batch's answers.
func (g *gather) run(batch []*flight) {
	asked := g.recall(batch)
	texts, vectors := g.embed(asked)

	g.mu.Lock()
	if g.busy--; g.ctx.Err() == nil {
		g.dispatch(time.Now())
	}
	g.mu.Unlock()

	// Nobody waits for this, it takes no request's place, and it is done even
	// when the port closes: the vectors were paid for.
	if g.shared != nil && len(texts) > 0 {
		g.shared.Put(context.WithoutCancel(g.ctx), texts, vectors)
	}
}

// recall answers what the shared cache holds and returns the rest.
func (g *gather) recall(batch []*flight) []*flight {
	if g.shared == nil {
		return batch
	}
	texts := make([]string, len(batch))
	for i, f := range batch {
		texts[i] = f.text
	}
	var rest []*flight
	for i, raw := range g.shared.Get(g.ctx, texts) {
		if raw == nil {
			rest = append(rest, batch[i])
			continue
		}
		g.owner.stats.Shared.Add(1)
		g.land(batch[i], g.owner.resolved(texts[i], raw, nil))
	}
	return rest
}

// embed asks for a batch, answers all of it, and returns the raw vectors it got.
func (g *gather) embed(batch []*flight) (texts []string, vectors [][]float32) {
	byText := make(map[string]*flight, len(batch))
	asked := make([]string, len(batch))
	for i, f := range batch {
		byText[f.text], asked[i] = f, f.text
	}
	p := g.owner
	p.stats.Embedded.Add(int64(len(asked)))
	ask(g.ctx, p.embedder, &p.stats, asked, func(text string, raw []float32, err error) {
		if err == nil || engine.KindOf(err) == engine.Permanent {
			p.answered.Store(time.Now().UnixNano())
		}
		r := p.resolved(text, raw, err)
		if r.Err == nil {
			texts, vectors = append(texts, text), append(vectors, raw)
		}
		g.land(byText[text], r)
	})
	return texts, vectors
}

// land gives a flight its answer.
func (g *gather) land(f *flight, r engine.Resolved) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.flights, f.text)
	f.answer = r
	close(f.done)
}
