package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/source/httpapi"
)

const (
	mostJobs   = 200 // that are remembered once they have ended
	mostWait   = 16  // of one kind, behind the one that runs
	longestJob = 30 * time.Minute
)

// Progress is how far an action is.
type Progress struct{ done, of atomic.Int64 }

// At says that so many of all are done; all may be 0 where it is not known.
func (p *Progress) At(done, all int64) {
	p.done.Store(done)
	p.of.Store(all)
}

// job is work that a request began. It goes on when the request, or the browser, is gone.
type job struct {
	id        int
	kind      string
	name      string
	who, back string
	progress  Progress
	ended     chan struct{}

	mu      sync.Mutex
	state   string // waits, runs, ended
	planned *Planned
	key     string // of the plan; "": there is nothing to do
	outcome *Outcome
	fault   string
	at      time.Time // of its beginning, then of its end
}

func (j *job) number() string { return strconv.Itoa(j.id) }

// over reports whether the job has ended.
func (j *job) over() bool {
	select {
	case <-j.ended:
		return true
	default:
		return false
	}
}

// plan keeps what the page shows of what the job has planned; what Do needs is the plan's.
func (j *job) plan(p *Planned, key string) {
	shown := *p
	shown.Do = nil
	j.mu.Lock()
	defer j.mu.Unlock()
	j.planned, j.key = &shown, key
}

// end keeps what the job has done.
func (j *job) end(o *Outcome) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outcome = o
}

// await waits for the job's end, a moment.
func (j *job) await(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-j.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// jobs runs one of a kind at a time, in the order in which they came.
type jobs struct {
	now  func() time.Time
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	closed bool
	next   int
	all    []*job
}

func newJobs(now func() time.Time) *jobs {
	k := &jobs{now: now}
	k.ctx, k.stop = context.WithCancel(context.Background())
	return k
}

// close ends what runs, and waits for it.
func (k *jobs) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.stop()
	k.work.Wait()
}

// begin has work done once all of its kind before it have ended; nil: too many wait.
func (k *jobs) begin(kind, name, who, back string, work func(context.Context, *job) error) *job {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.before(kind, k.next+1)
	if k.closed || len(before) > mostWait {
		return nil
	}
	k.next++
	j := &job{id: k.next, kind: kind, name: name, who: who, back: back, ended: make(chan struct{}), state: "waits", at: k.now()}
	k.makeRoom()
	k.all = append(k.all, j)
	k.work.Go(func() { k.run(j, before, work) })
	return j
}

// makeRoom forgets the oldest job that has ended: the others are waited for.
func (k *jobs) makeRoom() {
	if len(k.all) < mostJobs {
		return
	}
	if oldest := slices.IndexFunc(k.all, (*job).over); oldest >= 0 {
		k.all = slices.Delete(k.all, oldest, oldest+1)
	}
}

// before returns those of a kind that have not ended and came before a number.
func (k *jobs) before(kind string, id int) (all []*job) {
	for _, j := range k.all {
		if j.kind == kind && j.id < id && !j.over() {
			all = append(all, j)
		}
	}
	return all
}

func (k *jobs) run(j *job, before []*job, work func(context.Context, *job) error) {
	defer close(j.ended)
	for _, one := range before {
		<-one.ended
	}
	j.set("runs", k.now(), nil)
	ctx, cancel := context.WithTimeout(k.ctx, longestJob)
	defer cancel()
	err := ctx.Err()
	if err == nil {
		err = work(ctx, j)
	}
	j.set("ended", k.now(), err)
}

func (j *job) set(state string, at time.Time, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state, j.at = state, at
	if err != nil {
		j.fault = err.Error()
	}
}

// find returns a job, nil where it is not remembered.
func (k *jobs) find(id int) *job {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, j := range k.all {
		if j.id == id {
			return j
		}
	}
	return nil
}

// jobView is the page of a job.
type jobView struct {
	Name, Who, Back string
	State           string
	Before          int // that run first
	At              time.Time
	Done, Of        int64
	Fault           string
	Planned         *Planned
	Key             string // of the plan
	Outcome         *Outcome
}

func (v jobView) underWay() bool { return v.State != "ended" }

func (d *Dashboard) job(r *httpapi.Request) *httpapi.Answer {
	if refused := d.locked(r); refused != nil {
		return refused
	}
	id, _ := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, d.config.Path), jobPath))
	j := d.jobs.find(id)
	if j == nil || j.who != r.Who() {
		return httpapi.Refuse(http.StatusNotFound, httpapi.Fault{Reason: "not_found", Error: "this action is not known: it is another's, or was begun before a restart"})
	}
	d.jobs.mu.Lock()
	before := len(d.jobs.before(j.kind, j.id))
	d.jobs.mu.Unlock()
	j.mu.Lock()
	v := jobView{
		Name: j.name, Who: j.who, Back: j.back, State: j.state, Before: before, At: j.at, Done: j.progress.done.Load(), Of: j.progress.of.Load(),
		Fault: j.fault, Planned: j.planned, Key: j.key, Outcome: j.outcome,
	}
	j.mu.Unlock()
	v.fit()
	return d.page(r, "job", fmt.Sprintf("Action %d", id), d.seenNow(), v)
}

// heaviestAction is how many bytes the lines and tables of an action may have on its page.
const heaviestAction = 40 << 10

// fit leaves out the lines and rows that make the page too heavy, and says how many.
func (v *jobView) fit() {
	if v.Planned != nil {
		shown := *v.Planned
		shown.Lines, shown.Tables = fitted(shown.Lines, shown.Tables)
		v.Planned = &shown
	}
	if v.Outcome != nil {
		shown := *v.Outcome
		shown.Lines, shown.Tables = fitted(shown.Lines, shown.Tables)
		v.Outcome = &shown
	}
}

func fitted(lines []string, tables []Titled) ([]string, []Titled) {
	left := heaviestAction
	n := fits(&left, lines, func(line string) int { return escaped(text(line)) })
	if more := len(lines) - n; more > 0 {
		lines = append(slices.Clip(lines[:n]), fmt.Sprintf("and %d more lines", more))
	}
	tables = slices.Clone(tables)
	for i := range tables {
		t := &tables[i]
		n := fits(&left, t.Rows, rowWeight)
		if more := len(t.Rows) - n; more > 0 {
			last := make([]string, len(t.Head))
			last[0] = fmt.Sprintf("and %d more", more)
			t.Rows = append(slices.Clip(t.Rows[:n]), last)
		}
	}
	return lines, tables
}
