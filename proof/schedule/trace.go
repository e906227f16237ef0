package schedule

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Trace is what happened, in order. It is always hashed and seldom written.
type Trace struct {
	Began time.Time

	mu    sync.Mutex
	sum   uint64
	lines int
	out   io.Writer // nil: not written
}

// NewTrace returns an empty trace that begins now; nil: its lines are not written.
func NewTrace(out io.Writer) *Trace { return &Trace{Began: time.Now(), out: out} }

// Note takes down one event. The values stand in the hash as they are printed.
func (t *Trace) Note(who, what string, values ...int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Since(t.Began)
	t.lines++
	h := Mix(t.sum ^ uint64(at))
	for _, s := range [...]string{who, what} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 0x100000001b3
		}
		h = Mix(h)
	}
	for _, v := range values {
		h = Mix(h ^ uint64(v))
	}
	t.sum = h
	if t.out == nil {
		return
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%14.6f  %-12s %s", at.Seconds(), who, what)
	for _, v := range values {
		fmt.Fprintf(&line, " %d", v)
	}
	fmt.Fprintln(t.out, line.String())
}

// Sums returns a hash, which is the same for two runs that did the same at the same
// times, and how many lines there are.
func (t *Trace) Sums() (hash uint64, lines int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sum, t.lines
}
