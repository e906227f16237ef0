// Package outbox keeps every interaction in SQL, the source of truth, and
// publishes it from there: what was stored is published at least once, and what
// was not stored never.
//
//	Add ---> user_interactions ---> Relay ---> Publisher
//	group    processed_to_queue     shards     confirms
//	commit   = false, then true     of users
//
// # Ids
//
// A message id is unique per user, as in profiles. keyfold_event_ids has the digests of
// the ids: who stores an event notes its id in the same transaction, and a duplicate is
// an event whose id is noted. A row of a shop's own INSERT is stored without: the relay
// adds its id and body, notes the id, and commits that before it publishes the row. A
// row that collides with a unique key of the shop's own is no duplicate: it is rejected.
//
// The rows are the history that profiles can be made from. [Database.Cleanup] frees their
// bodies. [Database.Prune] deletes the rows from before a floor with their ids, and events of
// before the floor are refused from then on.
//
// # Order
//
// One user's rows are published in the order of their ids, as far as they are
// visible in the last read of a batch ([Relay.fetch]). So a transaction that was committed before
// another one began goes first; of two that overlap, the one that is committed
// last goes second, whatever its ids.
//
// A batch begins with one row of each user. A user's run doubles with every round
// that the broker confirms. It stops at a row that is refused, which holds back
// the rows behind it, and only those of its user. What the broker took behind it
// within the round is published again behind it. So among the copies each user's
// rows stand in their order, and they first appear in it as long as the broker
// refuses none. Several users' rows are in flight at once.
//
// Rows are found by not being marked as sent. A relay that remembers the last id
// it saw would lose every row whose transaction commits after one with a higher
// id.
//
// # Copies
//
// A row may be published twice: after a refusal or an answer that did not come,
// or where a relay ends between the confirm and the mark. Before its first
// publish a row is durably noted as tried, so that every later copy says since
// when there may be an earlier one ([Row.TriedAt]). The note also vouches for the
// row: a server shows a transaction to others before it is durable, and what a
// kill takes back was not published.
//
// # Streams
//
// To streams a row goes once ([Streams]). The rows of a batch are cut into groups, by shard,
// each with a number above all that the shard had before. Numbers and rows of the groups are
// written with the note of the rows as tried, in keyfold_publish_numbers, on condition that
// no other relay has given numbers since the shard was leased. A stream keeps the last number
// of each shard and drops a group whose number is not higher: so a group may be sent again by
// any process. The mark clears the note. The groups of a shard that is
// leased with a note go out again under their numbers, before any other row of the shard, and
// the broker confirms them. Where the note is for another stream than the shard's of
// now, its rows go out as rows that were tried.
//
// # Several relays
//
// Users are spread over [Shards] shards. A relay takes a few shards that have
// something to send, publishes one batch, marks it and lets them go. The lock is
// a row lock in a transaction that lasts for the batch and also carries the
// marks: it ends with the connection, so that no relay waits for one that was
// killed, and the one that gets the lock next sees every mark. SQLite has no row
// locks: there the relays of one process share their shards in memory, and a
// file has one process that relays. Behind a pooler of PostgreSQL nothing of a session
// is used: whatever a transaction sets ends with it.
//
// Row locks on the events themselves, which SKIP LOCKED suggests, were rejected:
// a second relay would skip to the user's next event and overtake.
//
// A row that another transaction has locked is left alone, and with it the later ones of
// its user: a batch waits for none.
//
// A fetch takes of one user at most half of a shard's share and looks past that
// user for the rest, so that no backlog keeps a shard's other users waiting.
//
// Rows of shards from 64 on are left to a backfill: `keyfold setup --adopt-backfill` puts
// there what a shop has not published of its past.
//
// # What is given up
//
// A row that cannot be published is set aside with its reason: failed_at is set,
// its user's later rows go on, and it waits for [Database.RetryFailed]. This
// happens at once to a row the publisher calls permanent, and to one that was
// refused [RelayConfig.MaxAttempts] times while the broker took other rows. An
// absent broker, and one that refuses everything, uses up no attempts.
package outbox
