package mongotest

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// replicaSet is the name of the set whose only member this server shows.
const replicaSet = "rs0"

// topology is what hello tells: whether this member is the primary, and a
// version by which clients tell old news from new.
type topology struct {
	mu          sync.Mutex
	down        bool // this is no primary
	processID   bson.ObjectID
	counter     int64
	term        uint64
	changed     chan struct{} // closed and made anew with every change
	stepUpTimer *time.Timer   // ends a step-down
}

func newTopology() *topology {
	return &topology{
		processID: bson.NewObjectID(),
		// A client takes a primary of a lower term for a stale one, so a server
		// that is started again must begin above where the last one ended.
		term:    uint64(time.Now().UnixNano()),
		changed: make(chan struct{}),
	}
}

// state is one moment of a topology.
type state struct {
	down    bool
	counter int64
	term    uint64
	changed <-chan struct{}
}

func (t *topology) now() state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return state{t.down, t.counter, t.term, t.changed}
}

// stepDown makes this no primary until stepUp, or for d where d > 0.
func (t *topology) stepDown(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stop(t.stepUpTimer)
	t.down = true
	t.announce()
	if d > 0 {
		t.stepUpTimer = time.AfterFunc(d, t.stepUp)
	}
}

// stepUp makes the server the primary again, in a new term.
func (t *topology) stepUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	stop(t.stepUpTimer)
	if t.down {
		t.down = false
		t.elect()
	}
}

// elected begins a new term without a time between.
func (t *topology) elected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.elect()
}

func (t *topology) elect() {
	t.term++
	t.announce()
}

func (t *topology) announce() {
	t.counter++
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *topology) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	stop(t.stepUpTimer)
}

// await returns when the topology is another than the one a client knows, after
// d, or at the end of ctx, which it reports.
func (t *topology) await(ctx context.Context, known document, d time.Duration) bool {
	now := t.now()
	id, _ := lookup(known, "processId").ObjectIDOK()
	counter, _ := lookup(known, "counter").AsInt64OK()
	if bson.ObjectID(id) != t.processID || counter != now.counter {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-now.changed:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// version returns the topologyVersion of a counter.
func (t *topology) version(counter int64) document {
	start, dst := bsoncore.AppendDocumentStart(nil)
	dst = bsoncore.AppendObjectIDElement(dst, "processId", t.processID)
	dst = bsoncore.AppendInt64Element(dst, "counter", counter)
	return endDocument(dst, start)
}

// electionID is the term in the form servers give it.
func electionID(term uint64) (id bson.ObjectID) {
	copy(id[:], []byte{0x7f, 0xff, 0xff, 0xff})
	binary.BigEndian.PutUint64(id[4:], term)
	return id
}

// hello answers hello and isMaster.
func hello(r *request) error {
	t := r.server.topology
	now := t.now()
	primary := !now.down
	r.reply.boolean("isWritablePrimary", primary)
	r.reply.boolean("ismaster", primary)
	r.reply.boolean("helloOk", true)
	r.reply.document("topologyVersion", t.version(now.counter))
	if r.store.mongos {
		r.reply.text("msg", "isdbgrid")
	} else {
		r.member(now)
	}
	r.reply.number("maxBsonObjectSize", maxDocument)
	r.reply.number("maxMessageSizeBytes", maxMessage)
	r.reply.number("maxWriteBatchSize", maxBatch)
	r.reply.buf = bsoncore.AppendDateTimeElement(r.reply.buf, "localTime", r.server.now().UnixMilli())
	r.reply.number("logicalSessionTimeoutMinutes", 30)
	r.reply.number("connectionId", r.conn.id)
	r.reply.number("minWireVersion", 0)
	r.reply.number("maxWireVersion", wireVersion)
	r.reply.boolean("readOnly", false)
	if lookup(r.body, "saslSupportedMechs").Type != 0 {
		list := r.reply.open("saslSupportedMechs", bsoncore.TypeArray)
		r.reply.text("0", scramMechanism)
		r.reply.close(list)
	}
	return nil
}

// member tells what hello of a member of a replica set says beside.
func (r *request) member(now state) {
	primary := !now.down
	host := r.server.host
	hosts := r.reply.open("hosts", bsoncore.TypeArray)
	r.reply.text("0", host)
	r.reply.close(hosts)
	r.reply.text("setName", replicaSet)
	r.reply.number("setVersion", 1)
	r.reply.boolean("secondary", !primary)
	r.reply.text("me", host)
	if primary {
		r.reply.text("primary", host)
		r.reply.buf = bsoncore.AppendObjectIDElement(r.reply.buf, "electionId", electionID(now.term))
	}
}

// wireVersion 21 is that of server 7.0.
const (
	wireVersion   = 21
	serverVersion = "7.0.0"
)

// awaitNews waits as a hello with topologyVersion and maxAwaitTimeMS asks it to:
// for other news than the client has. It reports whether there is a client left
// to answer. (Drivers ask for a stream of answers, and take one.)
func (r *request) awaitNews() bool {
	known, asked := r.field("topologyVersion").DocumentOK()
	ms, timed := r.field("maxAwaitTimeMS").AsInt64OK()
	if !r.isHello() || !asked || !timed {
		return true
	}
	return r.server.topology.await(r.conn.ctx, known, time.Duration(ms)*time.Millisecond)
}
