// Package notifications makes notifications of what users did in a shop: confirmations
// and parcels of orders, reminders of carts, broadcasts of campaigns and price drops,
// security codes, support messages, digests. It adds what producers do besides: repeats
// under one event_id, copies under another, rewordings. Each event carries a [Label] that
// says which other event it repeats.
//
//	Log                  what users did: [Sample] generates it
//	Generate(Config, Log) -> Week
//
// The same log and [Config] give the same bytes, on every machine.
package notifications
