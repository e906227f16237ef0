// Package notifications makes a week of a shop's notifications: confirmations and parcels
// of orders, reminders of carts, broadcasts of campaigns and price drops, security codes,
// support messages, digests. It adds what producers do besides: repeats under one
// event_id, copies under another, rewordings. week.json has the kinds of notifications
// with their texts, and the users' countries and settings.
//
//	Generate(Config) -> Week
//
// The same [Config] gives the same bytes, on every machine.
package notifications
