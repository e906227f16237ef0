// Package outbox keeps every interaction in SQL, the source of truth, and
// publishes it from there: what was stored is published at least once, and what
// was not stored never.
//
//	Add ---> user_interactions ---> Relay ---> Publisher
//	group    processed_to_queue     shards     confirms
//	commit   = false, then true     of users
//
// # Order
//
// One user's rows are published in the order of their ids, one at a time: the
// next goes out when the one before is confirmed. So whatever the broker refuses
// holds back the rows behind it, and only those of its user. A row may be
// published twice (a relay was killed between the confirm and the mark), but
// where it appears first it stands behind the first appearance of every earlier
// row of its user. Several users' rows are in flight at once.
//
// Rows are found by not being marked as sent. A relay that remembers the last id
// it saw would lose every row whose transaction commits after one with a higher
// id.
//
// # Several relays
//
// Users are spread over [Shards] shards. A relay takes a few shards that have
// something to send, publishes one batch, marks it and lets them go. The lock is
// a row lock in a transaction that lasts for the batch and also carries the
// marks: it ends with the connection, so that nobody waits for a relay that was
// killed, and whoever gets the lock next sees every mark. SQLite has no row
// locks: there the relays of one process share their shards in memory, and a
// file has one process that relays.
//
// Row locks on the events themselves, which SKIP LOCKED suggests, were rejected:
// a second relay would skip to the user's next event and overtake.
//
// # What is given up
//
// A row that cannot be published is set aside with its reason: failed_at is set,
// its user's later rows go on, and it waits for [Database.RetryFailed]. This
// happens at once to a row the publisher calls permanent, and to one that was
// refused [RelayConfig.MaxAttempts] times while the broker took other rows. An
// absent broker, and one that refuses everything, uses up no attempts.
package outbox
