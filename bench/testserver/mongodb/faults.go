package mongotest

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Kind is what a [Fault] does.
type Kind string

const (
	// Latency waits Fault.Delay before the command is executed. It is
	// executed all the same when its client has given up by then, as a request
	// is that was long on its way.
	Latency Kind = "latency"
	// LoseReply executes the command and then closes the connection instead of
	// answering.
	LoseReply Kind = "loseReply"
	// SwallowReply executes the command, never answers and leaves the
	// connection open.
	SwallowReply Kind = "swallowReply"
	// CutReply executes the command and closes the connection in the middle of
	// the answer.
	CutReply Kind = "cutReply"
	// CutRequest closes the connection without executing the command.
	CutRequest Kind = "cutRequest"
	// FailCommand answers with the error Fault.Code without executing: 13 for
	// an account without the right, for one.
	FailCommand Kind = "failCommand"
	// FailWrite refuses each document that matches Fault.Match (in
	// Fault.Namespace, where set) with the write error Fault.Code: the document
	// as it would be stored, or the one to be deleted.
	FailWrite Kind = "failWrite"
	// FailConcern executes the command and adds the writeConcernError
	// Fault.Code.
	FailConcern Kind = "failConcern"
)

// Fault is something that goes wrong. Its zero fields mean: every command but
// hello and the monitoring that goes with it, from the next one on, until it is
// removed.
type Fault struct {
	Kind     Kind          `bson:"kind"`
	Commands []string      `bson:"commands,omitempty"` // names of commands
	Skip     int           `bson:"skip,omitempty"`     // how many matching ones pass before
	Times    int           `bson:"times,omitempty"`    // how many it strikes; 0 for all
	Delay    time.Duration `bson:"delay,omitempty"`    // for Latency
	Code     int32         `bson:"code,omitempty"`     // for FailCommand, FailWrite and FailConcern
	Message  string        `bson:"message,omitempty"`  // instead of one made from the code
	// Match is a filter on documents, for FailWrite. Empty matches all.
	Match     bson.Raw `bson:"match,omitempty"`
	Namespace string   `bson:"namespace,omitempty"` // "database.collection", for FailWrite
}

// faults are those in force, in the order in which they came.
type faults struct {
	mu     sync.Mutex
	last   int64
	active []*activeFault
}

type activeFault struct {
	Fault
	id    int64
	match *filter // for FailWrite
}

func newFaults() *faults { return &faults{} }

func (f *faults) add(fault Fault) (int64, error) {
	a := &activeFault{Fault: fault}
	switch fault.Kind {
	case Latency, LoseReply, SwallowReply, CutReply, CutRequest, FailCommand, FailConcern:
	case FailWrite:
		query := slices.Clone(document(fault.Match))
		if query == nil {
			query = emptyDocument
		}
		match, err := parseFilter(query)
		if err != nil {
			return 0, err
		}
		a.match = match
	default:
		return 0, fail(codeBadValue, "mongotest: unknown kind of fault %q", fault.Kind)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	a.id = f.last
	f.active = append(f.active, a)
	return a.id, nil
}

// remove ends a fault; 0 ends all.
func (f *faults) remove(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = slices.DeleteFunc(f.active, func(a *activeFault) bool { return id == 0 || a.id == id })
}

// monitoring holds the commands that only a fault that names them strikes.
var monitoring = map[string]bool{"hello": true, "ismaster": true, "isMaster": true, controlCommand: true}

func (a *activeFault) concerns(command string) bool {
	if len(a.Commands) == 0 {
		return !monitoring[command]
	}
	return slices.Contains(a.Commands, command)
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
	before  bool // cut before executing
	err     *failure
	concern *failure
	reply   Kind // LoseReply, SwallowReply or CutReply
}

// activeFor returns what goes wrong with the next command of that name.
func (f *faults) activeFor(command string) (x activeFaults) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.active {
		if a.Kind == FailWrite || !a.concerns(command) || !f.strike(a) {
			continue
		}
		switch a.Kind {
		case Latency:
			x.delay += a.Delay
		case CutRequest:
			x.before = true
		case FailCommand:
			x.err = a.failure("command failed by a fault")
		case FailConcern:
			x.concern = a.failure("write concern failed by a fault")
		case LoseReply, SwallowReply, CutReply:
			x.reply = a.Kind
		}
	}
	return x
}

// refuse returns the write error that a fault has for the document.
func (f *faults) refuse(command, namespace string, doc document) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.active {
		if a.Kind != FailWrite || !a.concerns(command) ||
			a.Namespace != "" && a.Namespace != namespace || !a.match.matches(doc) || !f.strike(a) {
			continue
		}
		return a.failure("write refused by a fault")
	}
	return nil
}

func (a *activeFault) failure(otherwise string) *failure {
	message := a.Message
	if message == "" {
		message = otherwise
	}
	f := &failure{code: a.Code, message: message}
	if a.Code == codeValidation { // never comes without a reason
		start, info := bsoncore.AppendDocumentElementStart(nil, "errInfo")
		reason := bsoncore.NewDocumentBuilder().AppendString("reason", message).Build()
		f.details = endDocument(bsoncore.AppendDocumentElement(info, "details", reason), start)
	}
	return f
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
