package vector

import (
	"context"
	"errors"
	"sync"
	"time"

	"keyfold/engine"
)

// batcher lets concurrent callers share calls. A phrase has a request from the first
// caller that asks for it until its answer; a caller that asks in between joins it.
// Requests wait for others as [Batching] says, then leave in batches;
// a batch is one look into the shared cache and at most one request.
//
// The lock guards the maps only: no call to the outside is made under it.
type batcher struct {
	config Batching
	owner  *Phrases
	shared Cache // may be nil

	// Batches work under this context: no single caller's, as many wait for
	// one answer, and it is kept even if no caller waits any more.
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	requests map[string]*request // under mu: without an answer yet
	pending  []*request          // under mu: those of them that have not left, oldest first
	busy     int                 // under mu: batches under way
	timer    *time.Timer         // set under mu: the moment the pending ones leave
}

type request struct {
	text    string
	joined  time.Time     // when its first caller came
	waiters int           // under the batcher's lock
	done    chan struct{} // closed when there is an answer
	result  engine.Resolved
}

var errClosed = errors.New("the phrases' port is closed")

func newBatcher(config Batching, owner *Phrases, shared Cache) *batcher {
	g := &batcher{config: config, owner: owner, shared: shared, requests: map[string]*request{}}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.timer = time.AfterFunc(time.Hour, g.tick)
	g.timer.Stop()
	return g
}

func (g *batcher) close() {
	g.cancel(errClosed)
	g.mu.Lock()
	g.timer.Stop()
	left := g.pending
	g.pending = nil
	g.mu.Unlock()
	for _, f := range left {
		g.answer(f, engine.Resolved{Err: errClosed})
	}
	g.wg.Wait()
}

// each answers every text, or ctx's error for those that have no answer when it
// ends.
func (g *batcher) each(ctx context.Context, texts []string, answer func(string, engine.Resolved)) {
	for _, f := range g.join(texts) {
		select {
		case <-f.done:
		case <-ctx.Done():
			if !g.withdraw(f) {
				answer(f.text, engine.Resolved{Err: context.Cause(ctx)})
				continue
			}
		}
		answer(f.text, f.result)
	}
}

// join returns a request per text.
func (g *batcher) join(texts []string) []*request {
	now := time.Now()
	requests := make([]*request, len(texts))
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, text := range texts {
		f, ok := g.requests[text]
		if ok {
			g.owner.stats.Joined.Add(1)
		} else {
			f = g.begin(text, now)
		}
		f.waiters++
		requests[i] = f
	}
	g.dispatch(now)
	return requests
}

// begin makes a request, under the lock. An answer is in the cache before its
// request ends, so that a phrase without a request either is there or was never
// answered.
func (g *batcher) begin(text string, now time.Time) *request {
	f := &request{text: text, joined: now, done: make(chan struct{})}
	if unit := g.owner.cache.get(text); unit != nil {
		g.owner.stats.Hits.Add(1)
		f.result.Vector = unit
		close(f.done)
		return f
	}
	if g.ctx.Err() != nil {
		f.result.Err = errClosed
		close(f.done)
		return f
	}
	g.requests[text] = f
	g.pending = append(g.pending, f)
	return f
}

// withdraw ends a caller's wait; true: there is an answer after all.
func (g *batcher) withdraw(f *request) bool {
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
func (g *batcher) dispatch(now time.Time) {
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

// due is when the oldest pending request has waited long enough.
func (g *batcher) due() time.Time {
	if g.busy == 0 {
		return g.pending[0].joined.Add(g.config.MinWait)
	}
	return g.pending[0].joined.Add(g.config.MaxWait)
}

// take removes a batch from the pending ones. A phrase no caller waits for any
// more is not asked for.
func (g *batcher) take() []*request {
	n := min(len(g.pending), g.config.Inputs)
	batch := make([]*request, 0, n)
	for _, f := range g.pending[:n] {
		if f.waiters == 0 {
			delete(g.requests, f.text)
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

func (g *batcher) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx.Err() == nil {
		g.dispatch(time.Now())
	}
}

// run brings a batch's answers.
func (g *batcher) run(batch []*request) {
	asked := g.fromCache(batch)
	texts, vectors := g.embed(asked)

	g.mu.Lock()
	if g.busy--; g.ctx.Err() == nil {
		g.dispatch(time.Now())
	}
	g.mu.Unlock()

	// No caller waits for this, it takes no request's place, and it is done even
	// when the port closes: the vectors were paid for.
	if g.shared != nil && len(texts) > 0 {
		g.shared.Put(context.WithoutCancel(g.ctx), texts, vectors)
	}
}

// fromCache answers what the shared cache holds and returns the rest.
func (g *batcher) fromCache(batch []*request) []*request {
	if g.shared == nil {
		return batch
	}
	texts := make([]string, len(batch))
	for i, f := range batch {
		texts[i] = f.text
	}
	var rest []*request
	for i, raw := range g.shared.Get(g.ctx, texts) {
		if raw == nil {
			rest = append(rest, batch[i])
			continue
		}
		g.owner.stats.Shared.Add(1)
		g.answer(batch[i], g.owner.resolved(texts[i], raw, nil))
	}
	return rest
}

// embed asks for a batch, answers all of it, and returns the raw vectors it got.
func (g *batcher) embed(batch []*request) (texts []string, vectors [][]float32) {
	byText := make(map[string]*request, len(batch))
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
		g.answer(byText[text], r)
	})
	return texts, vectors
}

// answer gives a request its answer.
func (g *batcher) answer(f *request, r engine.Resolved) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.requests, f.text)
	f.result = r
	close(f.done)
}
