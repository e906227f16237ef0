package ingest

import (
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// settled is the age from which a file's times can be trusted: within one tick
// of the file system's clock it can change and look the same.
const settled = 2 * time.Second

// reloader holds a value read from files, and reads it again once they have
// changed. Nothing runs in the background: the first get after an interval looks
// at the files.
//
// The files at start must be without fault. After that, files at fault leave
// the last good value in place, or, where strict is set, give what load could
// make of them: nothing that was taken out of them stays in use.
type reloader[T any] struct {
	what   string // for the log
	paths  []string
	load   func() (T, error)
	every  time.Duration
	strict bool
	log    *slog.Logger

	value atomic.Pointer[T]
	due   atomic.Int64 // when the files are looked at next, Unix nanoseconds
	look  sync.Mutex   // for the fields below
	seen  []os.FileInfo
	fresh bool  // seen was too young to be trusted
	fault error // of the last look
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
	case r.fault == nil && !same(before, r.seen):
		r.log.Info(r.what + " were read again")
	}
}

// read looks at the files, and reads them where they are not as before or were
// at fault.
func (r *reloader[T]) read(now time.Time) error {
	r.due.Store(now.Add(r.every).UnixNano())
	found := make([]os.FileInfo, len(r.paths))
	fresh := false
	for i, path := range r.paths {
		info, err := os.Stat(path)
		if err != nil {
			found = nil
			break // load says so too
		}
		found[i] = info
		fresh = fresh || now.Sub(info.ModTime()) < settled
	}
	if r.value.Load() != nil && r.fault == nil && !r.fresh && same(found, r.seen) {
		return nil
	}
	value, err := r.load()
	if err == nil || r.strict && r.value.Load() != nil {
		r.value.Store(&value)
		r.seen, r.fresh = found, fresh
	}
	return err
}

// same reports whether files look as they did.
func same(a, b []os.FileInfo) bool {
	return slices.EqualFunc(a, b, func(a, b os.FileInfo) bool {
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}
