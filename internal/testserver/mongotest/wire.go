package mongotest

import (
	"errors"
	"io"
	"slices"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"
)

const headerBytes = 16

// opQuery is a driver's first hello.
const opQuery wiremessage.OpCode = 2004

// message is one request. It aliases the buffer it was read into.
type message struct {
	id     int32
	opcode wiremessage.OpCode
	flags  wiremessage.MsgFlag
	body   document
	// sequences are documents that belong into the body's array of that name.
	sequences map[string][]document
}

var errMalformed = errors.New("malformed message")

// readMessage reads one message into buffer, which it returns grown.
func readMessage(r io.Reader, buffer []byte) (m message, _ []byte, err error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return m, buffer, err
	}
	size, id, _, opcode, _, _ := wiremessage.ReadHeader(header[:])
	if size < headerBytes || size > maxMessage {
		return m, buffer, errMalformed
	}
	buffer = slices.Grow(buffer[:0], int(size))[:size-headerBytes]
	if _, err := io.ReadFull(r, buffer); err != nil {
		return m, buffer, err
	}
	m.id, m.opcode = id, opcode
	ok := false
	switch opcode {
	case wiremessage.OpMsg:
		ok = m.parseMsg(buffer)
	case opQuery:
		ok = m.parseQuery(buffer)
	}
	if !ok {
		err = errMalformed
	}
	return m, buffer, err
}

func (m *message) parseMsg(b []byte) (ok bool) {
	m.flags, b, ok = wiremessage.ReadMsgFlags(b)
	for ok && len(b) > 0 {
		var kind wiremessage.SectionType
		switch kind, b, _ = wiremessage.ReadMsgSectionType(b); kind {
		case wiremessage.SingleDocument:
			m.body, b, ok = wiremessage.ReadMsgSectionSingleDocument(b)
		case wiremessage.DocumentSequence:
			var name string
			var documents []document
			name, documents, b, ok = wiremessage.ReadMsgSectionDocumentSequence(b)
			m.sequences = map[string][]document{name: documents} // a command has one
		default:
			return false
		}
	}
	return ok && m.body != nil
}

func (m *message) parseQuery(b []byte) (ok bool) {
	if len(b) < 4 {
		return false
	}
	_, b, ok = bsoncore.ReadKey(b[4:]) // flags, and the collection's name
	if !ok || len(b) < 8 {
		return false
	}
	m.body, _, ok = bsoncore.ReadDocument(b[8:])
	return ok
}

// reply is an answer being written: a whole message whose lengths are filled in
// at the end.
type reply struct {
	buf   []byte
	start int32 // of the document
}

// begin starts the answer to m in buf's room.
func (r *reply) begin(buf []byte, m *message) {
	id := wiremessage.NextRequestID()
	if m.opcode == opQuery {
		_, buf = wiremessage.AppendHeaderStart(buf[:0], id, m.id, wiremessage.OpReply)
		buf = wiremessage.AppendReplyFlags(buf, 0)
		buf = wiremessage.AppendReplyCursorID(buf, 0)
		buf = wiremessage.AppendReplyStartingFrom(buf, 0)
		buf = wiremessage.AppendReplyNumberReturned(buf, 1)
	} else {
		_, buf = wiremessage.AppendHeaderStart(buf[:0], id, m.id, wiremessage.OpMsg)
		buf = wiremessage.AppendMsgSectionType(wiremessage.AppendMsgFlags(buf, 0), wiremessage.SingleDocument)
	}
	r.start, r.buf = bsoncore.AppendDocumentStart(buf)
}

// restart drops everything that was written of the document.
func (r *reply) restart() { r.buf = r.buf[:r.start+4] }

// finish closes the message.
func (r *reply) finish() []byte {
	r.buf = endDocument(r.buf, r.start)
	return bsoncore.UpdateLength(r.buf, 0, int32(len(r.buf)))
}

func (r *reply) number(key string, n int64) {
	if int64(int32(n)) == n {
		r.buf = bsoncore.AppendInt32Element(r.buf, key, int32(n))
		return
	}
	r.buf = bsoncore.AppendInt64Element(r.buf, key, n)
}

func (r *reply) text(key, s string) { r.buf = bsoncore.AppendStringElement(r.buf, key, s) }

func (r *reply) boolean(key string, b bool) { r.buf = bsoncore.AppendBooleanElement(r.buf, key, b) }

func (r *reply) document(key string, d []byte) { r.buf = bsoncore.AppendDocumentElement(r.buf, key, d) }

// open starts an inner document or array.
func (r *reply) open(key string, t bsoncore.Type) int32 {
	r.buf = bsoncore.AppendHeader(r.buf, t, key)
	start, buf := bsoncore.ReserveLength(r.buf)
	r.buf = buf
	return start
}

func (r *reply) list(key string, docs []document) {
	start := r.open(key, bsoncore.TypeArray)
	for i, doc := range docs {
		r.document(strconv.Itoa(i), doc)
	}
	r.close(start)
}

func (r *reply) close(start int32) { r.buf = endDocument(r.buf, start) }
