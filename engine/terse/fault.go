// Package terse keeps logs short: a fault has one line when it begins and one when it
// ends, and lines that are alike are one a minute.
package terse

import (
	"sync"
	"time"

	"keyfold/engine"
)

// Fault tells the beginning of a fault from its going on. Its zero value is no fault.
// It may be used from any goroutine.
type Fault struct {
	mu    sync.Mutex
	since time.Time       // zero: there is none
	told  map[string]bool // kinds and reasons of errors that were logged since then
}

// Begins notes a failure and reports whether it is to be logged: it begins a fault, or
// it is of a kind or a reason that the fault did not have so far. Texts of errors are
// not compared: they name ports and times.
func (f *Fault) Begins(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		f.since, f.told = time.Now(), map[string]bool{}
	}
	what := engine.KindOf(err).String() + " " + engine.ReasonOf(err)
	known := f.told[what]
	f.told[what] = true
	return !known
}

// Ends notes that all is well. It reports whether that ends a fault, and how long the
// fault lasted.
func (f *Fault) Ends() (lasted time.Duration, was bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.since.IsZero() {
		return 0, false
	}
	lasted = time.Since(f.since).Round(time.Millisecond)
	f.since, f.told = time.Time{}, nil
	return lasted, true
}
