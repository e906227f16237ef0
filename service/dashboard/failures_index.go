package dashboard

import (
	"context"
	"errors"
	"sync"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/failed"
	"keyfold/service/status"
)

// failureIndex is what is known of failures. A queue is no table: a pass takes each letter into its
// hands and gives it back at its end, so that one pass is made at a time, when it is asked for,
// for all viewers.
type failureIndex struct {
	from *Failures // nil: there are none
	now  func() time.Time
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup
	free chan struct{} // holds one while a pass is under way

	mu     sync.Mutex
	closed bool
	held   bool      // a pass is under way
	ended  time.Time // the last one
	counts map[string]placeCount
	pass   *indexPass // that makes the index anew; nil: none is under way
	last   *readFailures
	speed  float64 // letters a second, of the last pass
	shown  map[string]*shownFailure
	asked  int // letters that wait for a pass of their own, or are in it
}

// placeCount is how many failures a place has, by a look that no pass of this process disturbed.
type placeCount struct {
	waiting int64
	known   bool
	another bool // messages are in the hands of another tool
}

// indexPass is a pass under way.
type indexPass struct {
	done    chan struct{}
	begun   time.Time
	read    int64
	waiting int64
}

// readFailures is what a pass has found. It is not changed once it was published.
type readFailures struct {
	at      time.Time
	letters []failed.Brief
	all     failed.Selection // what no filter leaves out
	over    int64            // behind the bounds of the index
	places  map[string]readPlace
}

type readPlace struct {
	waiting int64 // less what actions took since
	fault   string
	another bool // the pass met fewer than there were
}

// firstSpeed is how many letters a pass reads in a second, before one has shown it.
const firstSpeed = 1000

// measured is how many letters a pass must read to show it.
const measured = 200

// longestPass bounds a pass.
const longestPass = 20 * time.Minute

func newFailureIndex(from *Failures, now func() time.Time) *failureIndex {
	x := &failureIndex{from: from, now: now, free: make(chan struct{}, 1), counts: map[string]placeCount{}, speed: firstSpeed, shown: map[string]*shownFailure{}}
	x.ctx, x.stop = context.WithCancel(context.Background())
	return x
}

// close ends a pass, and waits for it.
func (x *failureIndex) close() {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.stop()
	x.work.Wait()
}

// hold does work that reads letters, as the only one.
func (x *failureIndex) hold(ctx context.Context, work func() error) error {
	select {
	case x.free <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	x.set(func() { x.held = true })
	defer func() {
		x.set(func() { x.held, x.ended = false, x.now() })
		<-x.free
	}()
	return work()
}

func (x *failureIndex) set(change func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change()
}

// statistics is how old the broker's count of messages in hand may be: it may still have those of a
// pass of this process.
const statistics = 10 * time.Second

// look takes the counts of a look at the installation. While a pass holds letters, they are not
// among those that wait.
func (x *failureIndex) look(r *status.Report) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if r == nil || x.from == nil || x.held || !r.At.After(x.ended) {
		return
	}
	for _, p := range x.from.Places {
		n := placeCount{}
		if p.Queue == "" && r.Outbox != nil {
			n.waiting, n.known = r.Outbox.SetAside, true
		}
		for _, q := range r.Queues {
			if q.Name == p.Queue {
				n.waiting, n.known = int64(q.Ready), true // one that is not there has none
				n.another = q.Unacknowledged != nil && *q.Unacknowledged > 0 && r.At.Sub(x.ended) > statistics
			}
		}
		x.counts[p.Where] = n
	}
}

// failuresKnown is the state of an index at one time.
type failuresKnown struct {
	counts map[string]placeCount
	total  int64
	last   *readFailures
	pass   *indexPass // a copy
	speed  float64
}

func (x *failureIndex) state() failuresKnown {
	x.mu.Lock()
	defer x.mu.Unlock()
	k := failuresKnown{counts: map[string]placeCount{}, last: x.last, speed: x.speed}
	for where, n := range x.counts {
		k.counts[where] = n
		k.total += n.waiting
	}
	if x.pass != nil {
		pass := *x.pass
		k.pass = &pass
	}
	return k
}

// passView says how far a pass is.
type passView struct {
	Runs     bool
	Read, Of string
	Since    time.Time
}

func (k *failuresKnown) passView() passView {
	if k.pass == nil {
		return passView{}
	}
	return passView{true, cli.Number(k.pass.read), cli.Number(k.pass.waiting), k.pass.begun}
}

// begin begins to read all places, where that is not under way, and returns a channel that is
// closed at its end.
func (x *failureIndex) begin() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pass != nil {
		return x.pass.done
	}
	pass := &indexPass{done: make(chan struct{}), begun: x.now()}
	if x.closed {
		close(pass.done)
		return pass.done
	}
	for _, n := range x.counts {
		pass.waiting += n.waiting
	}
	x.pass = pass
	clear(x.shown)
	x.work.Go(func() {
		ctx, cancel := context.WithTimeout(x.ctx, longestPass)
		defer cancel()
		defer func() {
			x.set(func() { x.pass = nil })
			close(pass.done)
		}()
		_ = x.hold(ctx, func() error { x.readAll(ctx, pass); return nil }) // it ends with the process alone
	})
	return pass.done
}

// await waits a moment for the end of a pass.
func (x *failureIndex) await(ctx context.Context, done <-chan struct{}) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// readAll reads all places, and publishes what it found.
func (x *failureIndex) readAll(ctx context.Context, pass *indexPass) {
	began := x.now()
	var index failed.Index
	next := &readFailures{places: map[string]readPlace{}}
	var read int64
	for _, p := range x.from.Places {
		kept := int64(0)
		waiting, err := x.from.Read(ctx, p.Where, "", func(l *failed.Letter, _ int) bool {
			if !index.Add(l) {
				return false
			}
			kept++
			x.set(func() { pass.read = read + kept })
			return true
		})
		place := readPlace{waiting: int64(waiting)}
		full := index.Full()
		switch {
		case err != nil:
			place.fault = err.Error()
		case full:
			next.over += place.waiting - kept
		default:
			place.another = p.Queue != "" && kept < place.waiting
		}
		read += kept
		next.places[p.Where] = place
	}
	if errors.Is(ctx.Err(), context.Canceled) { // the process ends
		return
	}
	next.letters, next.at = index.Letters(), x.now()
	next.choose()
	x.set(func() {
		x.last = next
		if took := next.at.Sub(began); read >= measured && took > 0 {
			x.speed = float64(read) / took.Seconds()
		}
		for where, place := range next.places {
			if n := x.counts[where]; place.fault == "" {
				x.counts[where] = placeCount{place.waiting, true, n.another}
			}
		}
	})
}

// choose keeps what pages without a filter show.
func (r *readFailures) choose() {
	var every failed.Choice
	r.all = every.Select(r.letters)
}
