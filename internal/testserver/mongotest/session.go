package mongotest

import (
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// sessions remembers what retryable writes answered, so that a write whose
// answer was lost is not executed twice.
type sessions struct {
	mu   sync.Mutex
	byID map[string]*session
}

// session is one client's logical session. Its lock is held while a retryable
// write executes: a retry that overtakes its first attempt waits for it.
type session struct {
	mu     sync.Mutex
	id     string // the lsid document
	number int64  // the newest transaction number
	done   map[int32]*outcome
}

// outcome is what a statement of a retryable write did.
type outcome struct {
	statement int32
	// answer is {n, nModified, upserted}.
	answer document
	seq    uint64
}

func newSessions() *sessions { return &sessions{byID: make(map[string]*session)} }

func (s *sessions) get(id []byte) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, known := s.byID[string(id)]
	if !known {
		found = &session{id: string(id), number: -1, done: make(map[int32]*outcome)}
		s.byID[found.id] = found
	}
	return found
}

func (s *sessions) end(id []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, string(id))
}

// begin locks the session for the transaction number.
func (s *session) begin(number int64) error {
	s.mu.Lock()
	if number < s.number {
		defer s.mu.Unlock()
		return fail(codeTransactionTooOld, "Retryable write with txnNumber %d is prohibited on session because a "+
			"newer retryable write with txnNumber %d has already started on this session.", number, s.number)
	}
	s.adopt(number)
	return nil
}

// adopt forgets the statements of older transaction numbers.
func (s *session) adopt(number int64) {
	if number > s.number {
		s.number = number
		clear(s.done)
	}
}

// remember keeps a statement's outcome.
func (s *session) remember(o outcome) {
	o.answer = slices.Clone(o.answer)
	s.done[o.statement] = &o
}

// forgetAfter drops what was rolled back. The DDL lock is held, so no command holds
// a session.
func (s *sessions) forgetAfter(seq uint64, j *journal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.byID {
		for statement, o := range one.done {
			if o.seq > seq {
				delete(one.done, statement)
				j.forget(one, o)
			}
		}
	}
}

// appendEntry appends the session's journal entry for one statement.
func (s *session) appendEntry(dst []byte, field string, o *outcome) []byte {
	start, dst := bsoncore.AppendDocumentElementStart(dst, field)
	dst = bsoncore.AppendDocumentElement(dst, "id", []byte(s.id))
	dst = bsoncore.AppendInt64Element(dst, "number", s.number)
	dst = bsoncore.AppendInt32Element(dst, "statement", o.statement)
	return endDocument(bsoncore.AppendDocumentElement(dst, "answer", o.answer), start)
}

// replay reads a journal entry: a statement's outcome, or that it was rolled
// back.
func (s *sessions) replay(entry document, forget bool) {
	id, _ := lookup(entry, "id").DocumentOK()
	number, _ := lookup(entry, "number").AsInt64OK()
	statement, _ := lookup(entry, "statement").AsInt64OK()
	answer, _ := lookup(entry, "answer").DocumentOK()
	one := s.get(id)
	one.adopt(number)
	if forget {
		delete(one.done, int32(statement))
		return
	}
	one.remember(outcome{statement: int32(statement), answer: answer})
}
