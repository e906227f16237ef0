package terse

import (
	"sync"
	"time"
)

// Interval is how long lines that are alike are gathered.
const Interval = time.Minute

// Repeats gathers log lines that are alike: the first is written at once, and those
// that come within [Interval] are one line, with their number, when it is over. Its
// zero value has none. It may be used from any goroutine.
type Repeats struct {
	mu      sync.Mutex
	pending map[string]*pending
}

// pending are the lines of one key since its last line.
type pending struct {
	n     int
	write func(n int) // of the newest one
	due   *time.Timer
}

// Add counts a line. Lines with the same key are alike; there must be few keys. write
// writes the line for n of them, and is called in any goroutine.
func (r *Repeats) Add(key string, write func(n int)) {
	r.mu.Lock()
	p := r.pending[key]
	if p != nil {
		p.n, p.write = p.n+1, write
		r.mu.Unlock()
		return
	}
	if r.pending == nil {
		r.pending = map[string]*pending{}
	}
	r.pending[key] = &pending{due: time.AfterFunc(Interval, func() { r.flush(key) })}
	r.mu.Unlock()
	write(1)
}

// flush writes what was gathered under a key, and goes on gathering if there was any.
func (r *Repeats) flush(key string) {
	r.mu.Lock()
	p := r.pending[key]
	if p == nil { // Close was faster
		r.mu.Unlock()
		return
	}
	n, write := p.n, p.write
	if n == 0 {
		delete(r.pending, key)
	} else {
		p.n, p.write = 0, nil
		p.due.Reset(Interval)
	}
	r.mu.Unlock()
	if n > 0 {
		write(n)
	}
}

// Close writes what was gathered. Lines that come later begin anew.
func (r *Repeats) Close() {
	r.mu.Lock()
	all := r.pending
	r.pending = nil
	r.mu.Unlock()
	for _, p := range all {
		p.due.Stop()
		if p.n > 0 {
			p.write(p.n)
		}
	}
}
