package mongotest

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Fault is something that goes wrong with commands until it is removed.
//
// Its first fields are the data of MongoDB's failCommand, with that meaning: a
// matching command first waits, and then its connection is closed, or it fails
// unexecuted, or it is executed and its answer has a write concern error. A test
// that needs no more sets the failpoint with [FailCommand], which a mongod
// understands as well. The other fields are for what failCommand lacks.
type Fault struct {
	// Commands has the names of the commands it is for. A WriteError may have
	// none, and is for all of them then.
	Commands []string `bson:"failCommands,omitempty"`
	// AppName and Namespace ("database.collection") restrict it to those.
	AppName           string   `bson:"appName,omitempty"`
	Namespace         string   `bson:"namespace,omitempty"`
	BlockConnection   bool     `bson:"blockConnection,omitempty"`
	BlockTimeMS       int64    `bson:"blockTimeMS,omitempty"`
	CloseConnection   bool     `bson:"closeConnection,omitempty"`
	ErrorCode         int32    `bson:"errorCode,omitempty"`
	ErrorLabels       []string `bson:"errorLabels,omitempty"` // instead of a server's own, where not nil
	WriteConcernError bson.Raw `bson:"writeConcernError,omitempty"`

	Skip  int `bson:"skip,omitempty"`  // how many matching commands pass before
	Times int `bson:"times,omitempty"` // how many it strikes; 0 for all
	// Reply is what becomes of the answer to a command that was executed.
	Reply Reply `bson:"reply,omitempty"`
	// WriteError is the code with which each document that matches Match is
	// refused: the document as it would be stored, or the one to be deleted. Skip
	// and Times count documents then.
	WriteError int32    `bson:"writeError,omitempty"`
	Match      bson.Raw `bson:"match,omitempty"` // a filter; empty matches all
}

// Reply is what becomes of an answer.
type Reply string

// The fates of an answer.
const (
	LoseReply    Reply = "lose"    // the connection is closed instead
	SwallowReply Reply = "swallow" // it never comes, and the connection stays open
	CutReply     Reply = "cut"     // the connection is closed in the middle of it
)

// faults are those in force, in the order in which they came.
type faults struct {
	mu     sync.Mutex
	last   int64
	active []*activeFault
}

type activeFault struct {
	Fault
	id    int64
	match *filter // for WriteError
}

// failCommandID is the number of the fault that is the failpoint failCommand.
const failCommandID = -1

// add puts a fault in force and returns its number.
func (f *faults) add(fault Fault) (int64, error) {
	f.mu.Lock()
	id := f.last + 1
	f.last = id
	f.mu.Unlock()
	return id, f.set(id, fault)
}

// set puts a fault in force, in the place of the one that had its number.
func (f *faults) set(id int64, fault Fault) error {
	a := &activeFault{Fault: fault, id: id}
	query := slices.Clone(document(fault.Match))
	if query == nil {
		query = emptyDocument
	}
	var err error
	if a.match, err = parseFilter(query); err != nil {
		return err
	}
	switch {
	case len(fault.Commands) == 0 && fault.WriteError == 0:
		return fail(codeBadValue, "mongotest: a fault needs the commands it is for, or a write error")
	case !slices.Contains([]Reply{"", LoseReply, SwallowReply, CutReply}, fault.Reply):
		return fail(codeBadValue, "mongotest: unknown fate of a reply %q", fault.Reply)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = append(slices.DeleteFunc(f.active, func(b *activeFault) bool { return b.id == id }), a)
	return nil
}

// remove ends a fault; 0 ends all.
func (f *faults) remove(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = slices.DeleteFunc(f.active, func(a *activeFault) bool { return id == 0 || a.id == id })
}

// concerns reports whether the fault is for this command. A write concern error
// is for writes only.
func (a *activeFault) concerns(command, appName, namespace string) bool {
	named := slices.Contains(a.Commands, command) || len(a.Commands) == 0
	return named && (a.AppName == "" || a.AppName == appName) && (a.Namespace == "" || a.Namespace == namespace) &&
		(a.WriteConcernError == nil || commands[command].kind >= writing)
}

// strike counts one occasion and reports whether the fault takes it. A fault
// that has struck often enough leaves the list.
func (f *faults) strike(a *activeFault) bool {
	if a.Skip > 0 {
		a.Skip--
		return false
	}
	if a.Times == 1 {
		f.active = slices.DeleteFunc(slices.Clone(f.active), func(b *activeFault) bool { return a == b })
	}
	if a.Times > 0 {
		a.Times--
	}
	return true
}

// activeFaults is what goes wrong with one command.
type activeFaults struct {
	delay   time.Duration
	close   bool // before executing
	err     *failure
	concern *failure
	reply   Reply
}

// faultTime is what a command takes that meets a fault. Without it a driver would ask again
// many thousand times a second, as long as its operation has time.
const faultTime = 5 * time.Millisecond

// activeFor returns what goes wrong with a command.
func (f *faults) activeFor(r *request) (x activeFaults) {
	namespace, _ := r.namespace()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.active {
		if a.WriteError != 0 || !a.concerns(r.name, r.conn.appName, namespace) || !f.strike(a) {
			continue
		}
		x.delay += faultTime
		if a.BlockConnection {
			x.delay += time.Duration(a.BlockTimeMS) * time.Millisecond
		}
		switch {
		case a.CloseConnection:
			x.close = true
		case a.ErrorCode != 0:
			x.err = &failure{code: a.ErrorCode, message: "command failed by a fault", labels: a.ErrorLabels}
		case a.WriteConcernError != nil:
			code, _ := lookup(a.WriteConcernError, "code").AsInt64OK()
			x.concern = &failure{code: int32(code), labels: a.ErrorLabels, details: a.WriteConcernError}
		case a.Reply != "":
			x.reply = a.Reply
		}
	}
	return x
}

// refuse returns the write error that a fault has for the document.
func (f *faults) refuse(w *writer, namespace string, doc document) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.active {
		if a.WriteError == 0 || !a.concerns(w.name, w.appName, namespace) || !a.match.matches(doc) || !f.strike(a) {
			continue
		}
		refusal := fail(a.WriteError, "write refused by a fault")
		if a.WriteError == codeValidation { // never comes without a reason
			start, info := bsoncore.AppendDocumentElementStart(nil, "errInfo")
			reason := bsoncore.NewDocumentBuilder().AppendString("reason", refusal.message).Build()
			refusal.details = endDocument(bsoncore.AppendDocumentElement(info, "details", reason), start)
		}
		return refusal
	}
	return nil
}

// pause waits for d, and reports whether ctx lasted as long.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
