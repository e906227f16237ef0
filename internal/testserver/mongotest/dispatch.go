package mongotest

import (
	"context"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// command is how one command is executed.
type command struct {
	run func(*request) error
	// kind says what it needs of the server.
	kind commandKind
}

type commandKind uint8

const (
	// free: works on any member, without authentication.
	free commandKind = iota
	// anywhere: works on any member.
	anywhere
	// reading: works on the primary, and elsewhere if its read preference
	// allows it.
	reading
	// writing: works on the primary, and waits for its write concern.
	writing
	// defining: writing that changes collections as such, while no other command runs.
	defining
)

var commands map[string]command

func init() {
	commands = map[string]command{
		"hello": {hello, free}, "isMaster": {hello, free}, "ismaster": {hello, free},
		"ping": {ping, free}, "buildInfo": {buildInfo, free},
		"saslStart": {saslStart, free}, "saslContinue": {saslContinue, free},
		"endSessions": {endSessions, anywhere}, "killCursors": {killCursors, anywhere},
		"getMore": {getMore, anywhere}, controlCommand: {controlOverWire, free}, "configureFailPoint": {configureFailPoint, free},

		"find":            {find, reading},
		"aggregate":       {aggregate, reading},
		"listCollections": {listCollections, reading}, "listIndexes": {listIndexes, reading},

		"insert": {writes("documents", (*request).insertOne), writing}, "update": {writes("updates", (*request).updateOne), writing},
		"delete": {writes("deletes", (*request).deleteOne), writing},

		"create": {create, defining}, "collMod": {collMod, defining}, "drop": {drop, defining},
		"renameCollection": {renameCollection, defining},
		"dropDatabase":     {dropDatabase, defining}, "createIndexes": {createIndexes, defining},

		"enableSharding": {enableSharding, defining}, "shardCollection": {shardCollection, defining},
	}
}

// execute writes the answer to a request into its reply.
func (s *Server) execute(r *request, x activeFaults) {
	began := time.Now()
	cmd, known := commands[r.name]
	err := s.admit(r, cmd, known, x)
	if err == nil {
		err = s.run(r, cmd)
	}
	if flushed := s.store.journal.flush(); flushed != nil && err == nil {
		err = flushed
	}
	if err != nil {
		s.answerFailure(r, failureOf(err))
		return
	}
	if cmd.kind >= writing {
		s.answerConcern(r, began, x.concern)
	}
	r.reply.buf = bsoncore.AppendDoubleElement(r.reply.buf, "ok", 1)
}

// run executes the command under the locks it needs. A retryable write has its
// session to itself.
func (s *Server) run(r *request, cmd command) error {
	if r.name == controlCommand {
		return cmd.run(r) // takes the locks it needs itself
	}
	if cmd.kind == defining {
		s.store.ddl.Lock()
		defer s.store.ddl.Unlock()
		return cmd.run(r)
	}
	s.store.ddl.RLock()
	defer s.store.ddl.RUnlock()
	number, retryable := r.field("txnNumber").AsInt64OK()
	if cmd.kind != writing || !retryable {
		return cmd.run(r)
	}
	id, ok := r.field("lsid").DocumentOK()
	if !ok {
		return fail(codeInvalidOptions, "Transaction number requires a session ID to also be specified")
	}
	r.writer.session = s.store.sessions.get(id)
	if err := r.writer.session.begin(number); err != nil {
		return err
	}
	defer r.writer.session.mu.Unlock()
	return cmd.run(r)
}

// admit refuses what is not to be executed at all.
func (s *Server) admit(r *request, cmd command, known bool, x activeFaults) error {
	switch {
	case !known:
		return fail(codeCommandNotFound, "no such command: '%s'", r.name)
	case x.err != nil:
		return x.err
	case cmd.kind != free && s.users != nil && !r.conn.authenticated:
		return fail(codeUnauthorized, "Command %s requires authentication", r.name)
	case r.field("startTransaction").Type != 0 || r.field("autocommit").Type != 0 && cmd.kind >= reading:
		return fail(codeTransactionRefused, "mongotest: multi-document transactions are not supported: "+
			"write one document, or test against a real replica set")
	}
	down := s.topology.now().down
	switch {
	case down && cmd.kind >= writing:
		return fail(codeNotWritablePrimary, "not primary")
	case down && cmd.kind == reading && !readsSecondary(r):
		return fail(codeNotPrimaryRead, "not primary and secondaryOk=false")
	}
	return nil
}

func readsSecondary(r *request) bool {
	preference, _ := r.field("$readPreference").DocumentOK()
	mode, ok := lookup(preference, "mode").StringValueOK()
	return ok && mode != "primary"
}

// answerFailure replaces what was written by an error.
func (s *Server) answerFailure(r *request, f *failure) {
	r.reply.restart()
	r.reply.buf = bsoncore.AppendDoubleElement(r.reply.buf, "ok", 0)
	r.reply.buf = f.appendTo(r.reply.buf)
	s.appendStateChange(r, f.code)
	r.label(f)
}

// appendStateChange lets a client that is told of a lost primary know whether that
// is news.
func (s *Server) appendStateChange(r *request, code int32) {
	if stateChange[code] {
		r.reply.document("topologyVersion", s.topology.version(s.topology.now().counter))
	}
}

// label marks an error after which a retryable write may be sent again.
func (r *request) label(f *failure) {
	labels := f.labels
	if labels == nil && retryable[f.code] && r.field("txnNumber").Type != 0 {
		labels = []string{"RetryableWriteError"}
	}
	if len(labels) == 0 {
		return
	}
	list := r.reply.open("errorLabels", bsoncore.TypeArray)
	for i, label := range labels {
		r.reply.text(strconv.Itoa(i), label)
	}
	r.reply.close(list)
}

// answerConcern waits for the write concern and says where it was not met. What
// was written stays written.
func (s *Server) answerConcern(r *request, began time.Time, fault *failure) {
	f := fault
	if f != nil {
		r.reply.document("writeConcernError", f.details)
	} else if f = r.awaitConcern(began); f != nil {
		start := r.reply.open("writeConcernError", bsoncore.TypeEmbeddedDocument)
		r.reply.buf = f.appendTo(r.reply.buf)
		r.reply.close(start)
	} else {
		return
	}
	s.appendStateChange(r, f.code)
	r.label(f)
}

// awaitConcern waits until the command's writes are where its write concern
// wants them; a command that wrote nothing waits for everything before it. The
// default is a majority, as it is for a replica set since server 5.0.
func (r *request) awaitConcern(began time.Time) *failure {
	concern, _ := r.field("writeConcern").DocumentOK()
	if n, ok := lookup(concern, "w").AsInt64OK(); ok && n <= 1 {
		return nil
	}
	seq := r.writer.last
	if seq == 0 {
		seq = r.store.replication.appliedSeq()
	}
	ctx := r.conn.ctx
	if ms := r.number("maxTimeMS", 0); ms > 0 {
		var cancel context.CancelFunc
		at := began.Add(time.Duration(ms) * time.Millisecond)
		ctx, cancel = context.WithDeadlineCause(ctx, at, fail(codeMaxTimeExpired, "operation exceeded time limit"))
		defer cancel()
	}
	if err := r.store.replication.wait(ctx, seq); err != nil {
		return failureOf(err)
	}
	return nil
}
