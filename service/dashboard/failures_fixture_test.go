package dashboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/service/failed"
	"keyfold/service/status"
)

// pile is failures by their places, as a broker and a database have them.
type pile struct {
	mu      sync.Mutex
	letters map[string][]failed.Letter
	passes  int // over dead letters
	under   int // at this moment
	faults  map[string]error
	hides   int           // letters that another tool has in its hands
	fails   int           // a change of more letters than this fails; 0: none does
	hold    chan struct{} // a pass waits for it; nil: none does
	two     bool          // two passes were made at once
}

// deadQueue is the queue of the letters in the report of the tests.
const deadQueue = "user_embedding_updates_failed"

func newPile(letters ...failed.Letter) *pile {
	p := &pile{letters: map[string][]failed.Letter{}, faults: map[string]error{}}
	for i := range letters {
		l := &letters[i]
		p.letters[l.Where] = append(p.letters[l.Where], *l)
	}
	return p
}

// letter is a dead letter of a reason.
func letter(i int, reason string) failed.Letter {
	at := noon.Add(-time.Duration(i+1) * time.Minute)
	return failed.Letter{
		Where: failed.Broker, ID: fmt.Sprintf("m-%d", i), User: fmt.Sprint(i%7 + 1), NumericUser: true, Type: []string{"product_view", "search"}[i%2], Reason: reason, Retries: i % 4,
		Errors: []string{"it failed", fmt.Sprintf("timeout %d", i%3)}, FirstFailure: at.Add(-time.Hour), LastFailure: at, Host: "w1",
		Headers: map[string]string{"trace": "t1"}, Body: []byte(`{"secret":"red mug"}`),
	}
}

func row(i int) failed.Letter {
	l := letter(i, "not_published")
	l.Where, l.ID = failed.SQL, fmt.Sprintf("row-%d", i)
	return l
}

// many are dead letters of two reasons: every third is malformed.
func many(n int) []failed.Letter {
	all := make([]failed.Letter, n)
	for i := range all {
		all[i] = letter(i, []string{"retries_exhausted", "retries_exhausted", "bad_timestamp"}[i%3])
	}
	return all
}

func (p *pile) begin(where string) (func(), error) {
	p.mu.Lock()
	p.passes++
	p.under++
	p.two = p.two || p.under > 1
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return func() { p.mu.Lock(); p.under--; p.mu.Unlock() }, p.faults[where]
}

func (p *pile) read(_ context.Context, where, id string, each func(*failed.Letter, int) bool) (int, error) {
	end, err := p.begin(where)
	defer end()
	p.mu.Lock()
	all := slices.Clone(p.letters[where])
	p.mu.Unlock()
	seen := all[min(p.hides, len(all)):]
	for i := range seen {
		if err == nil && (where != failed.SQL || id == "" || seen[i].ID == id) && !each(&seen[i], len(all)) {
			break
		}
	}
	return len(all), err
}

// change takes what an order names, as far as it can.
func (p *pile) change(o FailureOrder, takes func(*failed.Letter) bool) (*FailureResult, error) {
	end, err := p.begin(o.Where)
	defer end()
	r := &FailureResult{Reasons: failed.Reasons{}}
	if err != nil {
		return r, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []failed.Letter
	for _, l := range p.letters[o.Where] {
		stays := true
		if err == nil && (o.Limit == 0 || r.Met < o.Limit) && o.Matches(&l) {
			r.Met++
			switch {
			case !takes(&l):
				r.Reasons.Of(l.Reason).Skipped++
			case !o.DryRun && p.fails > 0 && r.Done == int64(p.fails):
				r.Failed++
				err = errors.New("not replayed, still among the dead letters, as are those behind: the broker is away")
			default:
				r.Reasons.Of(l.Reason).Done++
				r.Done++
				if stays = o.DryRun; !stays {
					o.Gone(&l)
				}
			}
			o.At(r.Met, int64(len(p.letters[o.Where])))
		}
		if stays {
			left = append(left, l)
		}
	}
	p.letters[o.Where] = left
	r.Lines = []string{fmt.Sprintf("took %d, skipped %d", r.Done, r.Met-r.Done-r.Failed)}
	return r, err
}

func (p *pile) failures() *Failures {
	every := func(*failed.Letter) bool { return true }
	return &Failures{
		Places: []FailurePlace{
			{Where: failed.SQL, Name: "rows that were set aside in SQL"},
			{Where: failed.Broker, Name: "dead letters of profiles", Queue: deadQueue, Archive: true},
		},
		Read: p.read,
		Retry: func(_ context.Context, o FailureOrder) (*FailureResult, error) {
			return p.change(o, func(l *failed.Letter) bool { return o.Named || l.Reason != "bad_timestamp" })
		},
		Remove:  func(_ context.Context, o FailureOrder) (*FailureResult, error) { return p.change(o, every) },
		Archive: func(_ context.Context, o FailureOrder) (*FailureResult, error) { return p.change(o, every) },
	}
}

// report counts what is there.
func (p *pile) report(at time.Time) *status.Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := quiet(90)
	r.At = at
	r.Queues[2].Ready = len(p.letters[failed.Broker])
	r.Outbox.SetAside = int64(len(p.letters[failed.SQL]))
	return r
}

// failing is a dashboard over a pile, and how a look at it is taken.
type failing struct {
	*Dashboard
	http.Handler
	pile *pile
	now  *time.Time
}

func failingWith(t testing.TB, p *pile, config Config) *failing {
	t.Helper()
	now := noon.Add(time.Hour)
	config.Now, config.Machine = func() time.Time { return now }, "build-7"
	d, err := New(config, Sources{Users: newShop().users(), Failures: p.failures(), Look: lookAt(quiet(90))}, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	f := &failing{Dashboard: d, Handler: guarded(t, d, onLoopback()), pile: p, now: &now}
	f.look()
	t.Cleanup(func() { d.jobs.close(); d.index.close(); d.results.close() })
	return f
}

// look has time pass, and a look taken.
func (f *failing) look() {
	*f.now = f.now.Add(2 * time.Second)
	f.watch.take(*f.now, f.pile.report(*f.now), nil)
}

// act plans an action for a filter and does it; between is done in the middle.
func (f *failing) act(t testing.TB, name string, of url.Values, between func()) (plan, done string) {
	t.Helper()
	show := with(f.plans.unlockCookie())
	led := post(f, planPath+"failures."+name, url.Values{"of": {of.Encode()}, "back": {"/failures?" + of.Encode()}}, show)
	if led.StatusCode != http.StatusSeeOther {
		t.Fatalf("the plan of %s: %d %s", name, led.StatusCode, body(t, led))
	}
	_, plan = get(t, f, led.Header.Get("Location"), show)
	found := planField.FindStringSubmatch(plan)
	if found == nil {
		return plan, ""
	}
	if between != nil {
		between()
	}
	led = post(f, doPath, url.Values{"plan": {found[1]}}, show)
	_, done = get(t, f, led.Header.Get("Location"), show)
	return plan, done
}
