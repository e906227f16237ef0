// Package mongodb keeps profiles and products in MongoDB: the production store.
//
// # Durability
//
// Every write is acknowledged by a majority and its journal, every read comes
// from the primary with majority read concern. What Load returned cannot be
// rolled back, and neither can what Swap answered with nil. The URI cannot
// change that.
//
// # One bulk, one answer per profile
//
// Swap sends one unordered bulk of inserts and one of updates on
// {user_id, version}, through Collection.BulkWrite. A version that moved is no
// error to the server, and an update command answers with totals. So, where the
// totals do not add up, that bulk's users are read back in the bulk's own
// causally consistent session, and each is decided by whose write its document
// is: every bulk has a write_id. Comparing content instead would take one
// worker's write for another's where both folded the same events, and moves
// kilobytes of ids per user. Only a document that was written over meanwhile is
// decided by its applied ids. What was rejected:
//
//   - the bulkWrite command (Client.BulkWrite) answers per operation, but only
//     servers from 8.0 know it: two paths, of which one is hardly ever run;
//   - update commands sent with RunCommand give the same totals, and the driver
//     neither retries them nor types their errors;
//   - one command per profile answers each, at several times the cost for the
//     profiles that do not conflict, which is nearly all of them;
//   - an upsert turns a moved version into an error with an index, and recreates
//     users that were erased.
//
// A bulk without a clear answer (a timeout, a lost connection, a change of
// primary, a write concern that was not met) is [engine.ErrUnknown] for every
// profile in it that has no error of its own.
//
// # Encoding
//
// The vector is most of a document, and a codec spends its time on the 1536 keys
// "0", "1", ... of its array. They never change, so they are kept as a template
// into which the values are poked. Reading compares the keys with the same
// template; an array that another program wrote otherwise is read element by
// element.
//
// # Documents of other programs
//
// The collection may hold profiles that an earlier worker wrote, without
// keyfold's own fields. Such a document has history "unit" (that formula is what
// such workers compute), mass 1, the configured model and no applied ids.
// Numbers are taken in any type that holds the value exactly. A document without
// user_id, version, embedding or last_updated, or with a field of another type,
// cannot be used: Load answers for the other users, and with an error that names
// this one and the cure. Fields that keyfold does not know stay as they are, until
// the user is forgotten.
//
// # The probes' document
//
// Probes write one tombstone into user_embeddings, of a user_id that no event has
// (the least int32). It is also the mark of a collection that was set up: every
// Load asks for it beside its users, at the price of a few bytes. Where it is
// missing the collection was emptied or replaced, and the unique index is looked
// for, and made where it is gone, before the next user is inserted. Rejected: a
// look at the indexes before each insert, which is a round trip per bulk; a look
// when the profile of a known user has vanished, which a worker with an empty cache
// does not notice.
package mongodb
