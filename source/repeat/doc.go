// Package repeat remembers in Redis which notifications the broker has confirmed, so that
// the API need not ask the ledger for most of them.
//
//	npe:idem:<event_id>          content and user of a confirmed event, for 24 h
//	npe:{bloom}                  hash: the newest generation, and blocks, items and state of each
//	npe:{bloom}:<generation>     a blocked Bloom filter of event_ids, 24 h longer than it takes new ones
//
// The braces are literal: they keep the filter's keys in one slot of a cluster.
//
// No decision depends on it. A key is written only after the broker's confirm, so that a
// repeat that is answered from it has been published; a filter is only ever asked whether
// an event is certainly not in it. What Redis has forgotten, evicted, or never had in an
// old dump is published again, and the worker finds the event's key in the ledger.
//
//	store.go   the look-up, and writes that no answer waits for
//	bloom.go   where an event's bits are; bloom.lua sets them, counts and rotates
package repeat
