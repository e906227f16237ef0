package shard

import (
	"context"
	"errors"
	"fmt"

	"github.com/sourcegraph/conc/panics"
)

// flush is one call of the handler. Owned by the actor, but between start and
// the report on its done channel by the goroutine that runs it.
type flush[K comparable, V any] struct {
	windows []*window[K, V]
	batches []Batch[K, V] // what the handler sees of the windows
	amount  usage
	fault   error // why the handler did not return
	late    bool  // it returned after its context had ended
}

// start spends a token on the keys that are ready.
func (a *actor[K, V]) start() {
	select {
	case <-a.router.halt:
		a.router.tokens <- struct{}{}
		return
	default:
	}
	f := a.newFlush()
	f.windows = a.table.take(f.windows, a.router.config.FlushKeys, a.router.config.FlushItems)
	for _, w := range f.windows {
		f.batches = append(f.batches, Batch[K, V]{Key: w.queue.key, Items: w.items, Trigger: w.trigger})
		f.amount = f.amount.plus(w.usage())
	}
	a.running++
	a.router.stats.running.Add(1)
	a.router.goroutines.Go(func() { f.run(a.router.ctx, a.router.handler, a.done) })
}

// run calls the handler and reports back, whatever the handler does.
func (f *flush[K, V]) run(ctx context.Context, handle Handler[K, V], done chan<- *flush[K, V]) {
	f.fault = errExited // stands if the handler ends its goroutine
	defer func() { done <- f }()
	f.fault = catchPanics("handler", func() { handle(ctx, f.batches) })
	f.late = ctx.Err() != nil
}

var errExited = errors.New("shard: handler called runtime.Goexit")

// catchPanics runs what and turns a panic into an error that carries the stack.
func catchPanics(who string, what func()) error {
	if recovered := panics.Try(what); recovered != nil {
		return fmt.Errorf("shard: %s panicked: %w", who, recovered.AsError())
	}
	return nil
}

// finish frees the keys, the token and the room of a flush. One that did not
// return keeps them: it is not known which of its items were settled.
func (a *actor[K, V]) finish(f *flush[K, V]) {
	a.running--
	r := a.router
	r.stats.running.Add(-1)
	if f.fault != nil {
		r.fail(f.fault)
		return
	}
	r.stats.flushes.Add(1)
	r.stats.batches.Add(uint64(len(f.windows)))
	r.stats.items.Add(uint64(f.amount.items))
	if f.late {
		r.stats.late.Add(f.amount.items)
	}
	a.table.finish(f.windows)
	r.budget.release(f.amount)
	r.tokens <- struct{}{}
	a.freeFlush = append(a.freeFlush, f.emptied())
}

func (a *actor[K, V]) newFlush() *flush[K, V] {
	last := len(a.freeFlush) - 1
	if last < 0 {
		return new(flush[K, V])
	}
	f := a.freeFlush[last]
	a.freeFlush = a.freeFlush[:last]
	return f
}

// emptied returns the flush with its slices, nothing in them kept alive.
func (f *flush[K, V]) emptied() *flush[K, V] {
	clear(f.windows)
	clear(f.batches)
	*f = flush[K, V]{windows: f.windows[:0], batches: f.batches[:0]}
	return f
}
