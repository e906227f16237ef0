//go:build failpoints

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// Enabled says that this binary was built to fail.
const Enabled = true

// ErrInjected is what armed points return.
var ErrInjected = errors.New("failpoint")

// Names of the environment variables.
const (
	pointsVariable = "KEYFOLD_FAILPOINTS"
	logVariable    = "KEYFOLD_FAILPOINT_LOG"
)

// Hit passes a point. It returns an error, never returns, or comes late where
// the point is armed and this is the hit it is armed for.
func Hit(name string) error { return process().hit(name) }

// Reach passes a point at which an error cannot be returned.
func Reach(name string) { _ = Hit(name) }

// Acted returns how often each armed point has acted in this process.
func Acted() map[string]int {
	p := process()
	p.mu.Lock()
	defer p.mu.Unlock()
	acted := map[string]int{}
	for name, a := range p.armed {
		acted[name] = a.acted
	}
	return acted
}

// process reads the environment once. A binary that was built to fail and told
// so wrongly must not look like one that passed.
var process = sync.OnceValue(func() *points {
	p, err := parse(os.Getenv(pointsVariable))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", pointsVariable, err)
		os.Exit(2)
	}
	p.log, p.exit = os.Getenv(logVariable), killSelf
	return p
})

// killSelf ends the process as `kill -9` does: nothing is deferred or flushed.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

// points are those that are armed.
type points struct {
	log  string // file for first actions, "" for none
	exit func()

	mu    sync.Mutex
	armed map[string]*point
}

func (p *points) hit(name string) error {
	p.mu.Lock()
	a := p.armed[name]
	if a == nil || !a.due() {
		p.mu.Unlock()
		return nil
	}
	a.acted++
	p.note(name, a)
	p.mu.Unlock()
	switch a.action {
	case exit:
		p.exit()
	case sleep:
		time.Sleep(a.pause)
	case fail:
		return fmt.Errorf("%w %s, hit %d", ErrInjected, name, a.at)
	}
	return nil
}

// note writes a point's first action down before it acts: the kernel keeps it
// whatever becomes of the process. The caller holds mu.
func (p *points) note(name string, a *point) {
	if p.log == "" || a.noted {
		return
	}
	a.noted = true
	f, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%s %s\n", name, a.action)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", logVariable, err)
	}
}
