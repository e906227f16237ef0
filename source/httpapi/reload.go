package httpapi

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxFile bounds what is read into memory by a wrong path.
const maxFile = 1 << 20

// reloader holds a value read from files, and reads it again once they have
// changed. Nothing runs in the background: the first get after an interval reads
// the files, since a file may be replaced by one of the same size and time.
//
// The files at start must be without fault. After that, files at fault leave
// the last good value in place, or, where strict is set, give what load could
// make of them: nothing that was taken out of them stays in use.
type reloader[T any] struct {
	what   string // for the log
	paths  []string
	load   func(files [][]byte, err error) (T, error) // err: they cannot be read
	every  time.Duration
	strict bool
	log    *slog.Logger

	value atomic.Pointer[T]
	due   atomic.Int64      // when the files are looked at next, Unix nanoseconds
	look  sync.Mutex        // for the fields below
	seen  [sha256.Size]byte // digest of the files that the value is made of
	fault error             // of the last look
}

// start reads the value for the first time.
func (r *reloader[T]) start() error {
	r.look.Lock()
	defer r.look.Unlock()
	return r.read(time.Now())
}

// get returns the value as of the last look, which is at most a little older
// than every. Only one caller looks; the others go on with what is there.
func (r *reloader[T]) get() T {
	now := time.Now()
	if len(r.paths) > 0 && now.UnixNano() >= r.due.Load() && r.look.TryLock() {
		r.lookAgain(now)
		r.look.Unlock()
	}
	return *r.value.Load()
}

// faulty returns what is wrong with the files now.
func (r *reloader[T]) faulty() error {
	r.get()
	r.look.Lock()
	defer r.look.Unlock()
	return r.fault
}

func (r *reloader[T]) lookAgain(now time.Time) {
	before, told := r.seen, r.fault
	r.fault = r.read(now)
	switch {
	case r.fault != nil && (told == nil || told.Error() != r.fault.Error()):
		in := "those read before stay in use"
		if r.strict {
			in = "only what can be read of them is in use"
		}
		r.log.Warn(r.what+" are at fault: "+in, slog.String("hint", "correct the files; a restart is not needed"), slog.Any("error", r.fault))
	case r.fault == nil && (told != nil || before != r.seen):
		r.log.Info(r.what + " were read again")
	}
}

// read reads the files, and makes a value of them where they are not as before or
// were at fault.
func (r *reloader[T]) read(now time.Time) error {
	r.due.Store(now.Add(r.every).UnixNano())
	files, err := readFiles(r.paths)
	found := digestOf(files)
	if r.value.Load() != nil && err == nil && r.fault == nil && found == r.seen {
		return nil
	}
	value, err := r.load(files, err)
	if err == nil || r.strict && r.value.Load() != nil {
		r.value.Store(&value)
		r.seen = found
	}
	return err
}

func digestOf(files [][]byte) [sha256.Size]byte {
	var all []byte
	for _, text := range files {
		one := sha256.Sum256(text)
		all = append(all, one[:]...)
	}
	return sha256.Sum256(all)
}

func readFiles(paths []string) (files [][]byte, err error) {
	for _, path := range paths {
		text, err := readFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, text)
	}
	return files, nil
}

// readFile reads a regular file. It opens it without waiting, as for the writer of a FIFO.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory: name a file in it", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file (%s): write the text to a file, and rename it to this name", path, info.Mode())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes: is it another file? A token file has one token a line", path, maxFile)
	}
	return text, err
}
