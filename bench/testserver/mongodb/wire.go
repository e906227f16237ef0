package mongotest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// Opcodes of the wire protocol that are still spoken.
// Source: MongoDB manual, "MongoDB Wire Protocol".
const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013
)

// Flags of OP_MSG. Of the lower 16 bits an unknown one is an error.
const (
	flagChecksum       = 1 << 0
	flagMoreToCome     = 1 << 1
	flagExhaustAllowed = 1 << 16
	requiredFlags      = 1<<16 - 1
)

const headerBytes = 16

// message is one request. It aliases the buffer it was read into.
type message struct {
	id        int32
	opcode    int32
	flags     uint32
	body      document
	sequences []sequence
	namespace string // of OP_QUERY
}

// sequence is a kind 1 section: documents that belong into the body's array of
// that name.
type sequence struct {
	name      string
	documents []document
}

var errMalformed = errors.New("malformed message")

// readMessage reads one message into buffer, which it returns grown.
func readMessage(r io.Reader, buffer []byte) (message, []byte, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return message{}, buffer, err
	}
	size := int(int32(binary.LittleEndian.Uint32(header[:])))
	if size < headerBytes || size > maxMessage {
		return message{}, buffer, fmt.Errorf("%w: %d bytes", errMalformed, size)
	}
	size -= headerBytes
	if cap(buffer) < size {
		buffer = make([]byte, size)
	}
	buffer = buffer[:size]
	if _, err := io.ReadFull(r, buffer); err != nil {
		return message{}, buffer, err
	}
	m := message{
		id:     int32(binary.LittleEndian.Uint32(header[4:])),
		opcode: int32(binary.LittleEndian.Uint32(header[12:])),
	}
	switch m.opcode {
	case opMsg:
		return m, buffer, m.parseMsg(buffer)
	case opQuery:
		return m, buffer, m.parseQuery(buffer)
	default:
		return m, buffer, fmt.Errorf("%w: opcode %d", errMalformed, m.opcode)
	}
}

func (m *message) parseMsg(b []byte) error {
	if len(b) < 4 {
		return errMalformed
	}
	m.flags = binary.LittleEndian.Uint32(b)
	if unknown := m.flags & requiredFlags &^ (flagChecksum | flagMoreToCome); unknown != 0 {
		return fmt.Errorf("%w: flags %#x", errMalformed, unknown)
	}
	b = b[4:]
	if m.flags&flagChecksum != 0 {
		if len(b) < 4 {
			return errMalformed
		}
		b = b[:len(b)-4]
	}
	for len(b) > 0 {
		rest, err := m.parseSection(b[0], b[1:])
		if err != nil {
			return err
		}
		b = rest
	}
	if m.body == nil {
		return fmt.Errorf("%w: no body", errMalformed)
	}
	return nil
}

func (m *message) parseSection(kind byte, b []byte) (rest []byte, err error) {
	var ok bool
	switch kind {
	case 0:
		m.body, rest, ok = bsoncore.ReadDocument(b)
		if !ok {
			return nil, fmt.Errorf("%w: body", errMalformed)
		}
		return rest, nil
	case 1:
		size, _, ok := bsoncore.ReadLength(b)
		if !ok || size < 5 || int(size) > len(b) {
			return nil, fmt.Errorf("%w: document sequence", errMalformed)
		}
		return b[size:], m.parseSequence(b[4:size])
	default:
		return nil, fmt.Errorf("%w: section kind %d", errMalformed, kind)
	}
}

func (m *message) parseSequence(b []byte) error {
	name, b, ok := bsoncore.ReadKey(b)
	if !ok {
		return fmt.Errorf("%w: document sequence", errMalformed)
	}
	s := sequence{name: name}
	for len(b) > 0 {
		doc, rest, ok := bsoncore.ReadDocument(b)
		if !ok {
			return fmt.Errorf("%w: document sequence %s", errMalformed, name)
		}
		s.documents, b = append(s.documents, doc), rest
	}
	m.sequences = append(m.sequences, s)
	return nil
}

func (m *message) parseQuery(b []byte) error {
	if len(b) < 4 {
		return errMalformed
	}
	namespace, b, ok := bsoncore.ReadKey(b[4:])
	if !ok || len(b) < 8 {
		return errMalformed
	}
	m.namespace = namespace
	m.body, _, ok = bsoncore.ReadDocument(b[8:])
	if !ok {
		return errMalformed
	}
	return nil
}

// reply is an answer being written: a whole message whose lengths and identity
// are filled in at the end.
type reply struct {
	buf   []byte
	start int32
}

// begin starts the answer to m in buf's room.
func (r *reply) begin(buf []byte, m *message, more bool) {
	buf = append(buf[:0], make([]byte, headerBytes)...)
	r.buf = buf
	opcode := uint32(opMsg)
	if m.opcode == opQuery {
		opcode = opReply
		r.buf = append(r.buf, make([]byte, 20)...)
		binary.LittleEndian.PutUint32(r.buf[headerBytes+16:], 1) // one document
	} else {
		flags := uint32(0)
		if more {
			flags = flagMoreToCome
		}
		r.buf = append(binary.LittleEndian.AppendUint32(r.buf, flags), 0)
	}
	binary.LittleEndian.PutUint32(r.buf[12:], opcode)
	r.start, r.buf = bsoncore.AppendDocumentStart(r.buf)
}

// restart drops everything that was written of the document.
func (r *reply) restart() { r.buf = r.buf[:r.start+4] }

// finish closes the message.
func (r *reply) finish(id, responseTo int32) []byte {
	r.buf = endDocument(r.buf, r.start)
	binary.LittleEndian.PutUint32(r.buf, uint32(len(r.buf)))
	binary.LittleEndian.PutUint32(r.buf[4:], uint32(id))
	binary.LittleEndian.PutUint32(r.buf[8:], uint32(responseTo))
	return r.buf
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

func (r *reply) close(start int32) { r.buf = endDocument(r.buf, start) }
