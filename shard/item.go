package shard

import (
	"context"
	"time"
)

// Item is one thing to be held.
type Item[K comparable, V any] struct {
	Key   K // must equal itself: a floating-point NaN is no key
	Value V
	Bytes int       // what it counts against the byte budget; below 0 counts as 0
	At    time.Time // read by the event clock only
	// Prompt: it has waited already. It joins its key's open window, which does
	// not stay open for longer because of it; where there is none, it is flushed
	// as soon as its key is free. The event clock takes no notice.
	Prompt bool
}

// Batch is one key's closed window.
type Batch[K comparable, V any] struct {
	Key     K
	Items   []V // in the order of their submission, 1 to MaxSize of them
	Trigger Trigger
}

// Handler takes the closed windows of several different keys, for one round
// trip. When it returns, its items are settled and their room in the budget is
// free; it keeps neither the batches nor their Items, which are used again (it
// may reorder them). It runs on a goroutine of its own, several at a time.
//
// ctx ends only when a Drain runs out of time: the handler should then return
// soon, with whatever it could not settle left to come again.
//
// A panic stops the router for good; see [Router.Failed].
type Handler[K comparable, V any] func(ctx context.Context, batches []Batch[K, V])

// Trigger is what closed a window.
type Trigger uint8

// The triggers. The zero value is a window that has not closed.
const (
	TriggerIdle      Trigger = iota + 1 // no item came for Config.Window
	TriggerMaxDelay                     // Config.MaxDelay since the first item
	TriggerMaxSize                      // Config.MaxSize items
	TriggerPressure                     // the held budget ran short
	TriggerDrain                        // the router is stopping
	TriggerImmediate                    // batching is off, or the item was prompt
	TriggerRequest                      // CloseWhere named its key
	triggers                            // their number, and one
)

var triggerNames = [triggers]string{"", "idle", "max_delay", "max_size", "pressure", "drain", "immediate", "request"}

// Triggers lists every trigger, for metrics.
func Triggers() []Trigger {
	return []Trigger{
		TriggerIdle, TriggerMaxDelay, TriggerMaxSize,
		TriggerPressure, TriggerDrain, TriggerImmediate, TriggerRequest,
	}
}

// String returns the trigger's name in metrics.
func (t Trigger) String() string {
	if t >= triggers {
		return ""
	}
	return triggerNames[t]
}
