package mongotest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// maxRecord is more than any record has: a document and a session's entry.
const maxRecord = 2 * maxDocument

// openJournal loads the file's writes into an empty store, and goes on behind the
// last whole record. A file that does not exist is empty.
func openJournal(path string, s *store) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("mongotest: %w", err)
	}
	whole, err := load(bufio.NewReaderSize(f, 1<<20), s)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err == nil {
		_, err = f.Seek(whole, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mongotest: %s: %w", path, err), f.Close())
	}
	return &journal{file: f}, nil
}

// errDamaged: a record in the middle is not what was written.
var errDamaged = errors.New("a record is damaged and others follow it: remove the file, or restore it")

// load reads records up to the end, or up to a last one that was not written
// whole: nothing of that was answered. It returns the size of the whole records.
func load(r *bufio.Reader, s *store) (whole int64, err error) {
	for {
		var frame [frameBytes]byte
		if _, err := io.ReadFull(r, frame[:]); err != nil {
			return whole, tornTail(err)
		}
		size := binary.LittleEndian.Uint32(frame[:])
		if size > maxRecord {
			return whole, errDamaged
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			return whole, tornTail(err)
		}
		if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(frame[4:]) {
			if _, err := r.Peek(1); err != nil {
				return whole, tornTail(err)
			}
			return whole, errDamaged
		}
		if err := s.replay(body); err != nil {
			return whole, err
		}
		whole += int64(frameBytes + len(body))
	}
}

// tornTail accepts the end of the file, wherever in a record it is.
func tornTail(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// replay executes one record. The store has no journal yet.
func (s *store) replay(record document) error {
	if entry, ok := lookup(record, fieldSession).DocumentOK(); ok {
		s.sessions.replay(entry, false)
	}
	if entry, ok := lookup(record, fieldForget).DocumentOK(); ok {
		s.sessions.replay(entry, true)
	}
	namespace, ok := lookup(record, fieldNamespace).StringValueOK()
	if !ok {
		return nil
	}
	if lookup(record, fieldDrop).Type != 0 {
		s.drop(namespace)
		return nil
	}
	if to, ok := lookup(record, fieldRename).StringValueOK(); ok {
		s.rename(namespace, to)
		return nil
	}
	c := s.ensure(namespace)
	if doc, ok := lookup(record, fieldPut).DocumentOK(); ok {
		return c.replay(doc, doc)
	}
	if id, ok := lookup(record, fieldRemove).DocumentOK(); ok {
		return c.replay(id, nil)
	}
	if options, ok := lookup(record, fieldCreate).DocumentOK(); ok {
		return s.configure(namespace, options)
	}
	if spec, ok := lookup(record, fieldIndex).DocumentOK(); ok {
		x, err := parseIndex(spec)
		if err != nil {
			return err
		}
		return c.addIndex(x)
	}
	return nil
}

// replay gives the document of this _id a new version, nil to remove it.
func (c *collection) replay(id, doc document) error {
	r := c.indexes[0].entries[string(appendKey(nil, lookup(id, "_id")))]
	if r == nil {
		r = &record{}
	}
	if doc == nil && r.raw == nil {
		return nil
	}
	return c.write(&writer{store: c.store, replays: true}, r, doc, nil)
}
