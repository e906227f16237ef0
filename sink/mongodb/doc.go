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
// # A store that is emptied under running workers
//
// Without the unique index two workers could insert one user twice, and a database
// that was dropped, or a server that was started anew and empty, has none. Swap
// writes nothing, and Products, once Check has passed, calls no product missing, unless
// the index was seen: since the last new connection, within ten seconds (lookEvery), and
// since the last Load that did not find the probes' document. That is a tombstone of a user_id that
// no event has (the least int32), and the mark of a collection that was set up: Load
// asks for it beside its users, at the price of a few bytes. Where the index is
// missing both return the configuration fault of Check, and so does Probe, which
// makes no document in such a collection: a mark without an index would hide it. What
// the driver inserted while it made a new connection is looked at afterwards, and
// taken back where the index is missing.
//
// A database that is dropped between the Load and the insert of one flush, over
// connections that stay, can still get the documents of that flush. The next Load finds
// that out, and setup refuses two documents of one user. Rejected: a look at the indexes
// before each insert, which is a round trip per bulk; making the index again and going
// on, which hides that all profiles are gone, and leaves the collection without its
// validator; upserts with a hint on the index, which not all servers take.
package mongodb
