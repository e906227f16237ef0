package eval

import (
	"slices"

	"keyfold/engine/profile"
)

// Group is a kind of questions that is counted apart.
type Group struct {
	By   string // "pause", "activity" or "type"
	Name string
}

// fixedGroups are by the pause since the newest event in the profile, and by the number of
// events that the user had.
var fixedGroups = []Group{
	{"pause", "under 1 min"},
	{"pause", "under 30 min"},
	{"pause", "under 1 day"},
	{"pause", "under 7 days"},
	{"pause", "longer, or no profile"},
	{"activity", "1 event"},
	{"activity", "2 to 4 events"},
	{"activity", "5 to 19 events"},
	{"activity", "20 events or more"},
}

const (
	firstActivity = 5
	firstType     = 9
)

// Groups lists the groups: [fixedGroups], and those by the type of the event that answers.
func Groups() []Group {
	groups := slices.Clone(fixedGroups)
	for _, t := range profile.EventTypes() {
		groups = append(groups, Group{"type", t.String()})
	}
	return groups
}

// groupsOf returns the groups of a question.
func (w *worker) groupsOf(q *question) [3]int {
	pause := 4
	if w.usable > 0 {
		pause = below(int64(q.at-w.last), 60_000, SessionPause, dayMillis, 7*dayMillis)
	}
	activity := firstActivity + below(int64(q.before), 2, 5, 20)
	return [3]int{pause, activity, firstType + int(q.kind) - 1}
}

// below returns the index of the first bound above x.
func below(x int64, bounds ...int64) int {
	for i, bound := range bounds {
		if x < bound {
			return i
		}
	}
	return len(bounds)
}

// answer is what the rows of a plan answered to one user's questions.
type answer struct {
	tallies   [2][]tally // by part and row
	groups    [][]tally  // of the part to test by: by group and row
	current   [3]int     // groups of the question at work
	noProfile int        // questions of the part to test by that popularity answered
	writes    int
	events    int
}

func (a *answer) reset(arms int) {
	if a.groups == nil {
		for range Groups() {
			a.groups = append(a.groups, make([]tally, arms))
		}
		a.tallies = [2][]tally{make([]tally, arms), make([]tally, arms)}
	}
	for _, group := range a.groups {
		clear(group)
	}
	clear(a.tallies[0])
	clear(a.tallies[1])
	a.noProfile = 0
}

// asked begins a question.
func (a *answer) asked(w *worker, q *question) {
	a.current = w.groupsOf(q)
	if w.usable == 0 && q.test {
		a.noProfile++
	}
}

func (a *answer) add(arm int, q *question, t *tally) {
	a.tallies[part(q.test)][arm].add(t, 1)
	if q.test {
		for _, g := range a.current {
			a.groups[g][arm].add(t, 1)
		}
	}
}

// Metrics are the means over the questions of a part.
type Metrics struct {
	HR        float64 `json:"hr_at_k"`
	NDCG      float64 `json:"ndcg_at_k"`
	MRR       float64 `json:"mrr_at_100"`
	HR100     float64 `json:"hr_at_100"`
	HROfUsers float64 `json:"hr_at_k_mean_of_users"`
}

// Row is one row of a plan's answers.
type Row struct {
	Name     string
	Choose   Metrics   // of the part to choose by
	Test     Metrics   // of the part to test by
	Groups   []float64 // HR@K of the part to test by, by group; 0 where a group has no question
	Coverage float64   // share of the candidates that were ever among the first
}

// Result is what a pass answered.
type Result struct {
	Rows      []Row
	Questions [2]int      // by part
	Users     [2]int      // with a question, by part
	InGroup   []int       // questions of the part to test by
	NoProfile int         // of the part to test by: answered by popularity
	Checked   int         // folded by the slow way too, and equal
	Writes    int         // of the profiles of all users with questions, where the visibility knows
	Events    int         // of those users
	Agreement []Agreement // of the rows that were answered elsewhere

	totals [2][]tally
	groups [][]tally
	means  [2][]float64 // sums over users
	// Of each user with a question in the part to test by: how many, and the hits and
	// gains of each row. The intervals are drawn from them.
	asked []float64
	hits  [][]float64 // by row
	gains [][]float64
}

func newResult(p *pass) *Result {
	groups := Groups()
	r := &Result{InGroup: make([]int, len(groups)), hits: make([][]float64, p.arms), gains: make([][]float64, p.arms), Agreement: make([]Agreement, len(p.Given))}
	for _, name := range p.names() {
		r.Rows = append(r.Rows, Row{Name: name, Groups: make([]float64, len(groups))})
	}
	for i := range r.totals {
		r.totals[i], r.means[i] = make([]tally, p.arms), make([]float64, p.arms)
	}
	for range groups {
		r.groups = append(r.groups, make([]tally, p.arms))
	}
	return r
}

// add adds a user's answers up.
func (r *Result) add(a *answer) {
	r.NoProfile += a.noProfile
	r.Writes += a.writes
	r.Events += a.events
	for part, tallies := range a.tallies {
		n := tallies[0].questions
		if n == 0 {
			continue
		}
		r.Users[part]++
		for arm := range tallies {
			r.totals[part][arm].add(&tallies[arm], 1)
			r.means[part][arm] += tallies[arm].hits / n
		}
		if part == 1 {
			r.asked = append(r.asked, n)
			for arm := range tallies {
				r.hits[arm] = append(r.hits[arm], tallies[arm].hits)
				r.gains[arm] = append(r.gains[arm], tallies[arm].gain)
			}
		}
	}
	for g := range a.groups {
		for arm := range a.groups[g] {
			r.groups[g][arm].add(&a.groups[g][arm], 1)
		}
	}
}

// finish makes the means, of what was added and of what the workers counted.
func (r *Result) finish(p *pass, workers []*worker) {
	for part := range r.totals {
		r.Questions[part] = int(r.totals[part][0].questions + 0.5)
	}
	for arm := range r.Rows {
		row := &r.Rows[arm]
		row.Choose, row.Test = r.metrics(0, arm), r.metrics(1, arm)
		for g := range r.groups {
			t := r.groups[g][arm]
			r.InGroup[g] = int(t.questions + 0.5)
			row.Groups[g] = ratio(t.hits, t.questions)
		}
		row.Coverage = ratio(covered(workers, arm), float64(p.Candidates))
	}
	for _, w := range workers {
		r.Checked += w.checked
		for i, a := range w.agreement {
			r.Agreement[i].Compared += a.Compared
			r.Agreement[i].Differ += a.Differ
		}
	}
}

// covered counts the candidates that any worker had among a row's first.
func covered(workers []*worker, arm int) (n float64) {
	if workers[0].covered == nil {
		return 0
	}
	for j := range workers[0].covered[arm] {
		if slices.ContainsFunc(workers, func(w *worker) bool { return w.covered[arm][j] }) {
			n++
		}
	}
	return n
}

func (r *Result) metrics(part, arm int) Metrics {
	t := r.totals[part][arm]
	return Metrics{
		HR: ratio(t.hits, t.questions), NDCG: ratio(t.gain, t.questions), MRR: ratio(t.inverse, t.questions),
		HR100: ratio(t.far, t.questions), HROfUsers: ratio(r.means[part][arm], float64(r.Users[part])),
	}
}

func ratio(sum, n float64) float64 {
	if n == 0 {
		return 0
	}
	return sum / n
}

// Row returns the row of that name, nil where there is none.
func (r *Result) Row(name string) *Row {
	for i := range r.Rows {
		if r.Rows[i].Name == name {
			return &r.Rows[i]
		}
	}
	return nil
}

// Only returns the result with one of its rows.
func (r *Result) Only(row int) *Result {
	only := *r
	only.Rows, only.hits, only.gains = []Row{r.Rows[row]}, r.hits[row:row+1], r.gains[row:row+1]
	return &only
}
