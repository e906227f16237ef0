// Package shard holds keyed items in windows and hands the closed windows, many
// keys at a time, to a handler. It knows keys, time and sizes, and nothing of
// what the items mean.
//
// # Shape
//
//	Submit --> budget --> mailbox --> actor (owns its keys' windows)
//	             ^                      |  ready keys, in order
//	             |                      v  a token per flush
//	             +---- release ---- Handler(ctx, batches)
//
// A [Router] hashes each key to one of its shards. A shard is one goroutine, an
// actor, and everything it knows belongs to it alone: there is no lock around a
// window. Callers and actors meet in a mailbox that is swapped under its lock
// and emptied outside it.
//
// # Windows
//
// A key's window opens with its first item. It closes when no item came for
// [Config.Window], when [Config.MaxDelay] has passed since the first, when it
// holds [Config.MaxSize] items, under pressure, on [Router.CloseWhere] and on
// [Router.Drain]. With one that is due close those that are due within
// [Config.Early], which saves flushes.
// Deadlines lie on two lists per shard, by last and by first item. Time never
// runs backwards in a shard and every window has the same two spans, so both
// lists are sorted by construction: closing what is due looks at the two fronts
// and costs nothing per item. A heap, or a timer per key, would pay a logarithm
// or a timer for every item of a busy key.
//
// # Invariants
//
//   - Every accepted item reaches the handler exactly once, unless the handler
//     panics or Drain's deadline passes; what did not is counted and reported.
//   - The items of a key keep the order in which they were submitted.
//   - One flush at a time holds a given key.
//   - No batch exceeds MaxSize.
//   - A window never waits for items that the held budget keeps out: at three
//     quarters of it the oldest windows close, down to one half, and a Submit
//     that finds no room asks for as much as it needs.
//   - The actor never waits: not for a token, not for a handler, not for a
//     caller.
//
// # Clocks
//
// With [WallClock] time is the process's. A window whose trigger fired while it
// cannot be flushed yet (its key is in flight, or every token is out) goes on
// collecting up to MaxSize: the wait costs nothing, and batches grow just when
// the handler is the bottleneck.
//
// With [EventClock] time is the newest Item.At submitted so far, over all
// shards, and windows are sealed when they close. Groups are then a function of
// the submitted sequence: not of the machine's speed, the number of shards or
// the size of the chunks. Pressure is the exception, as it follows what the
// handler has finished: where groups must repeat, give enough room that [Stats]
// counts no window closed by it.
package shard
