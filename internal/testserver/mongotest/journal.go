package mongotest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"sync"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// journal is the file that holds every executed write, so that what was
// answered survives the end of the process. (It is handed to the operating
// system, not synced: the machine's end is not what it is for.)
//
// A record is the length of its body, the CRC-32C of the body and the body, one
// document. A nil journal keeps nothing.
type journal struct {
	mu      sync.Mutex
	pending []byte // in the order of execution

	writing sync.Mutex // before mu; one write(2) at a time
	spare   []byte
	file    *os.File
	failed  error // the first error; nothing is acknowledged after it
}

// Fields of a journal record. A record holds an operation on a namespace, or
// forgets sessions, and what a statement answered where it was retryable.
const (
	fieldNamespace = "ns"
	fieldPut       = "put"    // the new document
	fieldRemove    = "remove" // {_id} of the old one
	fieldCreate    = "create" // a collection's options
	fieldIndex     = "index"  // an index's specification
	fieldDrop      = "drop"
	fieldRename    = "rename" // the new namespace
	fieldSession   = "session"
	fieldForget    = "forget" // a session entry that was rolled back
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frameBytes is what stands before a record's body.
const frameBytes = 8

// append adds a record whose body build appends.
func (j *journal) append(build func([]byte) []byte) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pending = appendRecord(j.pending, build)
}

func appendRecord(dst []byte, build func([]byte) []byte) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, frameBytes)...)
	start, dst := bsoncore.AppendDocumentStart(dst)
	dst = endDocument(build(dst), start)
	body := dst[at+frameBytes:]
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(body)))
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Checksum(body, castagnoli))
	return dst
}

// write adds the change of one document: put where there is a new one, and
// otherwise the removal of the old one.
func (j *journal) write(namespace string, old, doc document, session func([]byte) []byte) {
	j.append(func(dst []byte) []byte {
		dst = bsoncore.AppendStringElement(dst, fieldNamespace, namespace)
		switch {
		case doc != nil:
			dst = bsoncore.AppendDocumentElement(dst, fieldPut, doc)
		case old != nil:
			start, grown := bsoncore.AppendDocumentElementStart(dst, fieldRemove)
			dst = endDocument(bsoncore.AppendValueElement(grown, "_id", lookup(old, "_id")), start)
		}
		if session == nil {
			return dst
		}
		return session(dst)
	})
}

func (j *journal) forget(s *session, o *outcome) {
	j.append(func(dst []byte) []byte { return s.appendEntry(dst, fieldForget, o) })
}

func (j *journal) create(namespace string, options document) {
	j.append(func(dst []byte) []byte {
		dst = bsoncore.AppendStringElement(dst, fieldNamespace, namespace)
		return bsoncore.AppendDocumentElement(dst, fieldCreate, options)
	})
}

func (j *journal) createIndex(namespace string, x *index) {
	j.append(func(dst []byte) []byte {
		dst = bsoncore.AppendStringElement(dst, fieldNamespace, namespace)
		return bsoncore.AppendDocumentElement(dst, fieldIndex, x.spec())
	})
}

func (j *journal) drop(namespace string) {
	j.append(func(dst []byte) []byte {
		dst = bsoncore.AppendStringElement(dst, fieldNamespace, namespace)
		return bsoncore.AppendBooleanElement(dst, fieldDrop, true)
	})
}

func (j *journal) rename(namespace, to string) {
	j.append(func(dst []byte) []byte {
		dst = bsoncore.AppendStringElement(dst, fieldNamespace, namespace)
		return bsoncore.AppendStringElement(dst, fieldRename, to)
	})
}

// flush returns once everything appended before the call is in the file.
func (j *journal) flush() error {
	if j == nil {
		return nil
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	batch := j.pending
	j.pending = j.spare[:0]
	j.mu.Unlock()
	j.spare = batch
	if j.failed == nil && len(batch) > 0 {
		if _, err := j.file.Write(batch); err != nil {
			j.failed = fmt.Errorf("mongotest: the journal cannot be written, so nothing is acknowledged any more: "+
				"free space on its volume and start again: %w", err)
		}
	}
	return j.failed
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	return errors.Join(j.flush(), j.file.Close())
}
