package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"keyfold/internal/testserver/process"
	"keyfold/proof/stack"
)

// fleet is the workers, or processes of another kind, each in a slot of its own. A
// worker that ends is started again as long as its slot is wanted, as any
// supervisor does.
type fleet struct {
	name    string // of one process, in reports and names of logs
	always  string // failpoints of every process
	dir     string
	command func(slot int, points string) *exec.Cmd
	say     func(format string, args ...any)

	mu      sync.Mutex
	slots   map[int]*worker // those that are wanted
	next    map[int]arming  // of a slot's next worker
	started int
	closed  bool
	totals  map[string]float64 // of ended workers, by metric
	ends    map[string]int     // how workers ended
	faults  []string           // ends that must not be
	working sync.WaitGroup
}

// basePoint has some phrases of every worker fail, so that there are retries.
const basePoint = "phrase=error:5/40"

func newFleet(dir string, command func(slot int, points string) *exec.Cmd, say func(string, ...any)) *fleet {
	return &fleet{
		name: "worker", dir: dir, command: command, say: say,
		slots: map[int]*worker{}, next: map[int]arming{}, totals: map[string]float64{}, ends: map[string]int{},
	}
}

// arming is the failpoints of a worker that is not there yet.
type arming struct {
	points  string
	started chan *worker // gets it
}

// arm gives the next worker of a slot failpoints. The channel gets that worker,
// which may be dead by then.
func (f *fleet) arm(slot int, points string) <-chan *worker {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next[slot] = arming{points, make(chan *worker, 1)}
	return f.next[slot].started
}

// launch starts a process. The caller holds mu.
func (f *fleet) launch(slot int) error {
	f.started++
	next := f.next[slot]
	delete(f.next, slot)
	w := &worker{slot: slot, armed: next.points, log: filepath.Join(f.dir, fmt.Sprintf("%s-%d-%04d.log", f.name, slot, f.started))}
	log, err := os.Create(w.log)
	if err != nil {
		return err
	}
	defer log.Close()
	command := f.command(slot, strings.Trim(f.always+";"+next.points, ";"))
	command.Stderr, command.Stdout = log, log
	if w.Process, err = process.Run(command); err != nil {
		return err
	}
	f.slots[slot] = w
	if next.started != nil {
		next.started <- w
	}
	f.working.Go(func() { f.watch(w) })
	return nil
}

// watch follows a worker to its end and starts its successor.
func (f *fleet) watch(w *worker) {
	for done := false; !done; {
		select {
		case <-w.Ended():
			done = true
		case <-time.After(time.Second):
			w.scrape()
		}
	}
	how, fault := w.verdict()
	fault = cmp.Or(fault, w.wrong)
	f.mu.Lock()
	f.ends[how]++
	for name, n := range w.metrics {
		f.totals[name] += n
	}
	if fault != "" {
		f.faults = append(f.faults, fault)
	}
	f.mu.Unlock()
	if fault != "" || !strings.HasPrefix(how, "kill") {
		f.say("%s %d ended: %s %s", f.name, w.slot, how, fault)
	}
	time.Sleep(200 * time.Millisecond)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.slots[w.slot] != w {
		return
	}
	if err := f.launch(w.slot); err != nil {
		f.faults = append(f.faults, err.Error())
	}
}

// retire reads the last counters of workers at rest, and stops them.
func (f *fleet) retire() error {
	for _, w := range f.running() {
		w.scrape()
	}
	failed := f.failed()
	f.close()
	if f.failed() > failed {
		return fmt.Errorf("a worker at rest failed to stop in order: see its log in %s", f.dir)
	}
	return nil
}

// failed returns how many workers ended with an error.
func (f *fleet) failed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ends[exitFailure]
}

// fault returns the ends that must not be, nil for none.
func (f *fleet) fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(f.faults, "\n"))
}

// running returns the workers that run, by slot.
func (f *fleet) running() (all []*worker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, slot := range slices.Sorted(maps.Keys(f.slots)) {
		if w := f.slots[slot]; w.Running() {
			all = append(all, w)
		}
	}
	return all
}

// await returns a running worker, the which-th modulo those there are.
func (f *fleet) await(ctx context.Context, which int) (w *worker, err error) {
	err = stack.Poll(ctx, 50*time.Millisecond, func() (bool, error) {
		all := f.running()
		if len(all) > 0 {
			w = all[which%len(all)]
		}
		return w != nil, nil
	})
	return w, err
}

// kill is kill -9.
func (f *fleet) kill(w *worker) {
	w.scrape()
	w.expect("kill -9")
	w.Kill()
}

// Ways a worker ends.
const (
	sigterm     = "SIGTERM"
	exitFailure = "exit code 1"
)

// terminate stops a worker in order. One that is still there after a while is
// killed: that is a fault.
func (f *fleet) terminate(w *worker) {
	w.scrape()
	w.expect(sigterm)
	_ = w.Signal(syscall.SIGTERM)
	_ = w.Signal(syscall.SIGCONT)
	select {
	case <-w.Ended():
	case <-time.After(stopLimit):
		f.mu.Lock()
		f.faults = append(f.faults, fmt.Sprintf("%s %d did not end within %v of SIGTERM: see %s", f.name, w.slot, stopLimit, w.log))
		f.mu.Unlock()
		_ = w.Signal(syscall.SIGQUIT) // leaves its goroutines in the log
		time.Sleep(time.Second)
		w.Kill()
	}
}

// add has the first empty slot filled.
func (f *fleet) add() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	slot := 0
	for f.slots[slot] != nil {
		slot++
	}
	return f.launch(slot)
}

// drop is kill -9 of a worker that has no successor.
func (f *fleet) drop(w *worker) {
	f.mu.Lock()
	if f.slots[w.slot] == w {
		delete(f.slots, w.slot)
	}
	f.mu.Unlock()
	f.kill(w)
}

// scale has the first n slots filled and no others.
func (f *fleet) scale(n int) error {
	f.mu.Lock()
	var surplus []*worker
	var err error
	for slot, w := range f.slots {
		if slot >= n {
			delete(f.slots, slot)
			surplus = append(surplus, w)
		}
	}
	for slot := range n {
		if f.slots[slot] == nil && err == nil {
			err = f.launch(slot)
		}
	}
	f.mu.Unlock()
	for _, w := range surplus {
		f.terminate(w)
	}
	return err
}

// stopLimit is above the worker's own time limit of a shutdown.
const stopLimit = 25 * time.Second

// close stops all workers in order and waits for them.
func (f *fleet) close() {
	f.mu.Lock()
	f.closed = true
	all := slices.Collect(maps.Values(f.slots))
	f.mu.Unlock()
	var ending sync.WaitGroup
	for _, w := range all {
		ending.Go(func() { f.terminate(w) })
	}
	ending.Wait()
	f.working.Wait()
}

// total returns a counter summed over all workers there were, as far as they
// were asked before they died.
func (f *fleet) total(metric string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.totals[metric]
	for _, w := range f.slots {
		if w.Running() {
			w.mu.Lock()
			n += w.metrics[metric]
			w.mu.Unlock()
		}
	}
	return int64(n)
}
