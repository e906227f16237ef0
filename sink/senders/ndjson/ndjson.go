// Package ndjson hands dispatches over to a file: one line of JSON each, see package
// message. A program that reads the file drops a dispatch_id that it knows.
package ndjson

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"keyfold/engine/notify"
	"keyfold/sink/senders/message"
)

// File is a [notify.Dispatcher] that appends to a file. It is safe for concurrent
// use by one process.
type File struct {
	// Links are those of the messages; nil: they have none. It is set before the first Send.
	Links message.Linker

	mu   sync.Mutex
	file *os.File
	size int64 // bytes of whole lines
}

// Open opens a file, which is made if there is none. A last line without its end,
// which a killed process or a full disk has left, is cut off: its dispatch was not
// confirmed and comes again. A file that ends in anything else is refused.
func Open(path string) (*File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file: name a file to append to", path)
	}
	n := &File{file: f}
	if err == nil {
		n.size, err = wholeLines(f, info.Size())
	}
	if err == nil && n.size < info.Size() {
		err = n.cut(info.Size() - n.size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return n, nil
}

// cut takes the last line off, whose end is missing.
func (f *File) cut(length int64) error {
	begin := []byte(message.Begin)
	begin = begin[:min(int64(len(begin)), length)]
	tail := make([]byte, len(begin))
	if _, err := f.file.ReadAt(tail, f.size); err != nil {
		return err
	}
	if !bytes.Equal(tail, begin) {
		return fmt.Errorf("%s has a last line without an end that keyfold did not write: name another file", f.file.Name())
	}
	return f.file.Truncate(f.size)
}

// wholeLines returns how many of the file's first bytes end with a line's end.
func wholeLines(f io.ReaderAt, size int64) (int64, error) {
	buffer := make([]byte, 64<<10)
	for end := size; end > 0; {
		part := buffer[:min(end, int64(len(buffer)))]
		if _, err := f.ReadAt(part, end-int64(len(part))); err != nil {
			return 0, err
		}
		for i := len(part) - 1; i >= 0; i-- {
			if part[i] == '\n' {
				return end - int64(len(part)-i-1), nil
			}
		}
		end -= int64(len(part))
	}
	return 0, nil
}

// Send appends the dispatches and returns once they are on the disk.
func (f *File) Send(_ context.Context, dispatches []notify.Dispatch) []error {
	errs := make([]error, len(dispatches))
	var lines []byte
	for i := range dispatches {
		whole := len(lines)
		if lines, errs[i] = message.Append(lines, &dispatches[i], f.Links); errs[i] != nil {
			lines = lines[:whole]
			continue
		}
		lines = append(lines, '\n')
	}
	if err := f.append(lines); err != nil {
		for i := range errs {
			errs[i] = errors.Join(errs[i], err)
		}
	}
	return errs
}

func (f *File) append(lines []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(lines) == 0 {
		return nil
	}
	_, err := f.file.WriteAt(lines, f.size)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		// What follows must not stand behind a part of a line.
		return errors.Join(fmt.Errorf("append to %s: %w (check that the disk has room)", f.file.Name(), err), f.file.Truncate(f.size))
	}
	f.size += int64(len(lines))
	return nil
}

// Close closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file.Close()
}
