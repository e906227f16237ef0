package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/failed"
	"keyfold/service/status"
	"keyfold/source/httpapi"
)

// Failures is where failures are read and changed. Each function stands on what a command of
// failures does, and makes a pass of its own: what one pass holds another does not see, so that
// the dashboard makes one at a time.
type Failures struct {
	Places []FailurePlace
	// Read calls each with the failures of a place, until it returns false, and leaves them where
	// they are. waiting is how many there were when it began. id names one row of SQL; "": all.
	Read func(ctx context.Context, where, id string, each func(l *failed.Letter, waiting int) bool) (waiting int, err error)
	// What these have done stands in the result, also beside an error.
	Retry, Remove, Archive func(context.Context, FailureOrder) (*FailureResult, error)
}

// FailurePlace is where failures are.
type FailurePlace struct {
	Where   string
	Name    string // in the plural
	Queue   string // "": they are rows of the outbox
	Archive bool   // they can be archived
}

// FailureOrder says what to do with the failures of a place.
type FailureOrder struct {
	Where   string
	ID      string // of one row; "": all that match
	Matches func(*failed.Letter) bool
	Limit   int64 // of those that match; 0: all
	DryRun  bool
	Named   bool                  // also what would be refused again
	At      func(read, all int64) // told of the progress
	Gone    func(*failed.Letter)  // told of each that is no longer there
}

// FailureResult is what became of an order, or would.
type FailureResult struct {
	Met     int64 // that match
	Done    int64 // of those
	Failed  int64 // that were tried, and are still there
	Reasons failed.Reasons
	Lines   []string // as the command says it
}

const (
	failuresPath = "/failures"
	failurePath  = "/failures/" // the key of a letter stands behind it
)

// Most of what the page of failures lists, and how many are read without being asked.
const (
	failuresShown = 50
	groupsShown   = 12
	choicesShown  = 30
	readAtOnce    = 2000
)

// place returns a place, nil where there is none of the name.
func (f *Failures) place(where string) *FailurePlace {
	for i := range f.Places {
		if f.Places[i].Where == where {
			return &f.Places[i]
		}
	}
	return nil
}

// failuresView is the page of failures.
type failuresView struct {
	Fault   string // why counts are not known
	Places  []placeView
	Waiting int64
	Takes   string // as long as a pass would take
	Pass    passView
	Read    bool // there is an index
	At      time.Time
	Over    string // letters behind the bound of an index

	Ask      failuresAsk
	Counts   *failed.Counts
	Groups   []groupView
	More     int
	Rows     []failureRow
	From, To int
	Span     string // from the oldest failure to the newest
	Pages    int
	Links    []link
	Of       string // the filter, for a plan
	Act      []failureAct
}

type placeView struct {
	Name, Count string
	Unknown     bool // it cannot be counted
	Fault       string
	Since       string // how many came or went since the index was read
	Another     bool
}

type groupView struct {
	failed.Group
	Age  string
	Show string // the page of it
	Of   string // its filter
}

type failureRow struct {
	ID, Path string
	Where    string
	Cells    []string // as the command has them
	User     string   // the page of the user; "": there is none
	At       time.Time
}

// failureAct is a button.
type failureAct struct{ Name, Button string }

// underWay spares a page with a list: what is typed into its form would be lost.
func (v *failuresView) underWay() bool { return v.Pass.Runs && !v.Read }

func (d *Dashboard) failures(r *httpapi.Request) *httpapi.Answer {
	ask := readAsk(r.URL.Query(), d.config.Now())
	if r.URL.Query().Has("read") {
		if r.Header.Get("Sec-Fetch-Site") != "cross-site" {
			d.index.begin()
		}
		return d.lead(ask.path(ask.Page))
	}
	seen := d.watch.current(r.Context())
	v := &failuresView{Ask: ask, Of: ask.query().Encode()}
	if seen.Report == nil {
		v.Fault = errFirstLook.Error()
	}
	d.index.look(seen.Report)
	known := d.index.state()
	if known.last == nil && known.pass == nil && seen.Report != nil && known.total > 0 && known.total <= readAtOnce {
		d.index.await(r.Context(), d.index.begin())
		known = d.index.state()
	}
	v.places(d.sources.Failures, known)
	if known.last != nil {
		v.chosen(d, known.last)
	}
	if d.acts(r) {
		v.Act = d.failureActs(ask.Where)
	}
	return d.page(r, "failures", "Failures", seen, v)
}

func (v *failuresView) places(from *Failures, known failuresKnown) {
	v.Waiting, v.Pass, v.Read = known.total, known.passView(), known.last != nil
	v.Takes = cli.Age(time.Duration(float64(known.total) / known.speed * float64(time.Second)))
	for _, p := range from.Places {
		n := known.counts[p.Where]
		one := placeView{Name: p.Name, Count: "-", Unknown: !n.known}
		if n.known {
			one.Count = cli.Number(n.waiting)
		}
		one.Another = n.another
		if known.last != nil {
			was := known.last.places[p.Where]
			one.Fault, one.Another = was.fault, one.Another || was.another
			switch came := n.waiting - was.waiting; {
			case !n.known || was.fault != "":
			case came > 0:
				one.Since = cli.Number(came) + " more since"
			case came < 0:
				one.Since = cli.Number(-came) + " fewer since"
			}
		}
		if one.Unknown || n.waiting > 0 || one.Fault != "" || one.Since != "" || one.Another {
			v.Places = append(v.Places, one)
		}
	}
}

// chosen shows what of the index is meant.
func (v *failuresView) chosen(d *Dashboard, all *readFailures) {
	now := d.config.Now()
	v.At = all.at
	if all.over > 0 {
		v.Over = cli.Number(all.over)
	}
	v.Ask.offer(d.sources.Failures, all.all.Counts)
	s := all.all
	if v.Ask.Narrow() {
		s = v.Ask.Select(all.letters)
	}
	v.Counts = s.Counts
	if s.Counts.Oldest != nil {
		v.Span = fmt.Sprintf("oldest failure %s, newest %s", cli.At(*s.Counts.Oldest), cli.At(*s.Counts.Newest))
	}
	v.page(d, s.Letters, now)
	if len(s.Groups) == 1 && v.Ask.Narrow() {
		return
	}
	weight := 0
	for i, g := range s.Groups[:min(groupsShown, len(s.Groups))] {
		of := v.Ask
		of.Reason, of.Type, of.Page = g.Reason, g.Type, 1
		one := groupView{Group: g, Show: of.path(1), Of: of.query().Encode()}
		if !g.Oldest.IsZero() {
			one.Age = cli.Age(now.Sub(g.Oldest))
		}
		if weight += len(one.Show) + len(one.Of) + escaped(g.Reason) + escaped(g.Type) + escaped(g.Example); i > 0 && weight > heaviestTable {
			break
		}
		v.Groups = append(v.Groups, one)
	}
	v.More = len(s.Groups) - len(v.Groups)
}

// failing is how many failures wait, for the navigation.
func (d *Dashboard) failing(report *status.Report) int {
	d.index.look(report)
	return int(d.index.state().total)
}

// leadsToFailures marks the problems whose failures have a page.
func (d *Dashboard) leadsToFailures(p problems) problems {
	for i := range p.All {
		switch one := &p.All[i]; one.Runbook {
		case "keyfolddeadletterswaiting", "keyfoldoutboxrowssetaside":
			if d.sources.Failures != nil {
				one.Link = d.config.Path + failuresPath
			}
		}
	}
	return p
}

// noSuchFailure refuses what names no place.
func noSuchFailure() *httpapi.Answer {
	return httpapi.Refuse(http.StatusNotFound, httpapi.Fault{Reason: "not_found", Error: "there is no such place of failures: see the list of failures"})
}

// namesFailure reports whether a search may be for the id of a letter: it is one word, and the
// runbook has none like it.
func (d *Dashboard) namesFailure(q string) bool {
	return d.sources.Failures != nil && q != "" && !strings.ContainsAny(q, " \t\n") && len(d.manual.search(q)) == 0
}
