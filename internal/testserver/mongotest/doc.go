// Package mongotest is a test server that speaks the MongoDB wire protocol to
// the real driver. It shows itself as the primary of a replica set, server 7.0,
// and stands in where no mongod can be installed; a test-suite that passes here
// is meant to pass against a real one too.
//
//	s := mongotest.Start(t)
//	client, err := mongo.Connect(options.Client().ApplyURI(s.URI()))
//
// A server in a process of its own is [keyfold/internal/testserver/mongotest/mongotestd];
// [Dial] controls it.
//
// # What it does
//
//   - Commands: insert, update, delete, find, aggregate, getMore, killCursors, create,
//     collMod, drop, dropDatabase, createIndexes, listCollections, listIndexes,
//     hello, ping, buildInfo, endSessions, configureFailPoint, SCRAM-SHA-256; as a mongos
//     ([WithMongos]) enableSharding and shardCollection too.
//   - Documents change atomically, one at a time. Unique indexes (on one field),
//     $jsonSchema validators, upserts, ordered and unordered batches and
//     retryable writes work as in a server, and errors have a server's codes
//     and shapes.
//   - What it does not know it refuses with an error that begins with
//     "mongotest:", rather than doing something else: transactions, collation,
//     fields below the top level, updates of many documents, pipelines as updates,
//     unique compound, sparse and TTL indexes, sorts by several fields, projections that
//     exclude, and all operators but $in, $gt, $gte, $lt, $lte, $exists, $set, $unset, $inc
//     and $setOnInsert.
//   - A pipeline is one $vectorSearch, whose answer is exact and needs no index; its filter knows
//     $eq and $nin.
//   - Documents and arrays equal each other where their bytes do.
//
// # Faults
//
// The faults that MongoDB's failpoint failCommand expresses are set as in a
// mongod, with {configureFailPoint: "failCommand", mode: ..., data: ...} from any
// client; [FailCommand] does so for a test. mode is "alwaysOn", "off", {times: n} or
// {skip: n}; data is failCommands with
//
//   - errorCode, errorLabels: the command fails unexecuted;
//   - writeConcernError: a write is executed, and its answer has this error;
//   - closeConnection: the connection is closed, and the command not executed;
//   - blockConnection, blockTimeMS: the command waits before all that. It is
//     executed also where its client has left meanwhile, unlike in a mongod;
//   - appName, namespace: for commands of this client, on this collection only.
//
// [Controls] has what a mongod lacks: a reply that is lost, swallowed or cut after
// the write, errors of single documents, several faults at once ([Fault]); a
// primary that steps down, a server that pauses or refuses connections, replication
// that stalls, and a rollback.
//
// # Majority and local
//
// A write is applied at once and, unless replication is held up
// ([Controls.StallReplication], [Controls.DelayReplication]), reaches a majority in
// the same moment. While it has not, it can be rolled back ([Controls.Rollback]).
//
// # How it is kept
//
// A document is the bytes it came in. Unique indexes are hashes; a query with an
// equality or $in on such a field is a look-up, and reads no further into a
// document than to the fields it names. An update copies the elements it does not
// touch. Nothing ever changes a stored document's bytes, so readers need no copy.
//
// With [WithData], the journal gets every write before it is answered, in
// write(2) calls that concurrent commands share: what was acknowledged survives
// kill -9 of the process, and so does what a retry must find.
package mongotest
