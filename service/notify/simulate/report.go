package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/internal/cli"
)

// Report is what a simulation has found.
type Report struct {
	Version       string   `json:"candidate"` // of the set
	From          string   `json:"from"`
	To            string   `json:"to"`
	Sample        float64  `json:"sample"` // share of the users
	Users         int64    `json:"users"`
	Read          int64    `json:"decisions_read"`
	NotReplayable int64    `json:"not_replayable"` // their users are erased and they have no event, or were merged later
	Changed       int64    `json:"changed"`        // another outcome, reason, rule, time or channel, or not made at all
	Added         int64    `json:"added"`          // later turns that the candidate makes in addition
	Matrix        []Cell   `json:"matrix"`
	Rules         []ByRule `json:"changes"`      // most frequent first
	MostChanged   []User   `json:"most_changed"` // users
	Assumption    string   `json:"assumption"`

	cells map[Cell]int64
	rules map[ByRule]int64
}

// Cell counts decisions by their outcomes. "none": the turn does not happen, or is not
// recorded.
type Cell struct {
	Was   string `json:"was"`
	Would string `json:"would"`
	N     int64  `json:"decisions"`
}

// ByRule counts changes by what decided: the rule that matched, and the first reason.
type ByRule struct {
	Was       string `json:"was"`
	WasRule   string `json:"was_rule,omitempty"`
	WasFor    string `json:"was_reason,omitempty"`
	Would     string `json:"would"`
	WouldRule string `json:"would_rule,omitempty"`
	WouldFor  string `json:"would_reason,omitempty"`
	N         int64  `json:"decisions"`
}

// User counts the changes of one user.
type User struct {
	ID string `json:"user_id"`
	N  int64  `json:"changes"`
}

const (
	none       = "none"
	mostUsers  = 10
	mostRules  = 20 // in the text
	assumption = "senders post and users behave as they did; preferences, taste and the times of deferrals that stay are those recorded"
)

func newReport(c *Config) *Report {
	return &Report{
		Version: c.Set.Version, From: cli.At(c.From.Time()), To: cli.At(c.To.Time()), Sample: c.Sample, Assumption: assumption,
		MostChanged: []User{}, cells: map[Cell]int64{}, rules: map[ByRule]int64{},
	}
}

// add counts a user's decisions.
func (r *Report) add(id string, u *user, c *Config) {
	before := r.Changed + r.Added
	read := r.Read
	for i := range u.recorded {
		d := &u.recorded[i]
		if d.Record.DecidedAt < c.From {
			continue
		}
		r.Read++
		if d.Event == nil || d.Record.DecidedAt < u.from {
			r.NotReplayable++
			continue
		}
		var would *notify.Record
		if at, ok := u.madeAt[turnOf(&d.Record)]; ok {
			would = &u.made[at]
		}
		r.count(&d.Record, would, c)
	}
	for i := range u.made {
		if u.record(turnOf(&u.made[i])) == nil {
			r.count(nil, &u.made[i], c)
		}
	}
	if r.Read > read {
		r.Users++
	}
	if n := r.Changed + r.Added - before; n > 0 {
		r.mostChanged(User{id, n})
	}
}

func (r *Report) mostChanged(u User) {
	r.MostChanged = append(r.MostChanged, u)
	slices.SortFunc(r.MostChanged, func(a, b User) int { return cmp.Or(-cmp.Compare(a.N, b.N), cmp.Compare(a.ID, b.ID)) })
	r.MostChanged = r.MostChanged[:min(mostUsers, len(r.MostChanged))]
}

func (r *Report) count(was, would *notify.Record, c *Config) {
	if c.Each != nil {
		c.Each(was, would)
	}
	change := ByRule{}
	change.Was, change.WasRule, change.WasFor = said(was)
	change.Would, change.WouldRule, change.WouldFor = said(would)
	r.cells[Cell{Was: change.Was, Would: change.Would}]++
	switch {
	case was == nil:
		r.Added++
	case would == nil || !same(was, would):
		r.Changed++
	default:
		return
	}
	r.rules[change]++
}

// said returns the outcome, the rule that matched and the first reason.
func said(r *notify.Record) (outcome, rule, reason string) {
	if r == nil {
		return none, "", ""
	}
	if rule = r.Facts.RuleName; rule == "" && r.RuleID != uuid.Nil {
		rule = r.RuleID.String()
	}
	if len(r.Reasons) > 0 {
		reason = r.Reasons[0]
	}
	return r.Outcome.String(), rule, reason
}

func same(a, b *notify.Record) bool {
	return a.Outcome == b.Outcome && a.RuleID == b.RuleID && a.DeferUntil == b.DeferUntil && a.DigestKey == b.DigestKey &&
		slices.Equal(a.Reasons, b.Reasons) && slices.Equal(a.Channels, b.Channels)
}

// finish sorts what was counted.
func (r *Report) finish() {
	r.Matrix, r.Rules = []Cell{}, []ByRule{}
	for c, n := range r.cells {
		c.N = n
		r.Matrix = append(r.Matrix, c)
	}
	slices.SortFunc(r.Matrix, func(a, b Cell) int { return cmp.Or(cmp.Compare(a.Was, b.Was), cmp.Compare(a.Would, b.Would)) })
	for c, n := range r.rules {
		c.N = n
		r.Rules = append(r.Rules, c)
	}
	slices.SortFunc(r.Rules, func(a, b ByRule) int {
		return cmp.Or(-cmp.Compare(a.N, b.N), cmp.Compare(a.Was+a.WasRule+a.WasFor, b.Was+b.WasRule+b.WasFor),
			cmp.Compare(a.Would+a.WouldRule+a.WouldFor, b.Would+b.WouldRule+b.WouldFor))
	})
}

// Headline says how many decisions were read and changed.
func (r *Report) Headline() string {
	share := 0.0
	if r.Read > 0 {
		share = 100 * float64(r.Changed) / float64(r.Read)
	}
	return fmt.Sprintf("changed %s of %s of %s (%.1f %%), and %s added; %s not replayable", cli.Number(r.Changed), cli.Count(r.Read, "decision"),
		cli.Count(r.Users, "user"), share, cli.Number(r.Added), cli.Number(r.NotReplayable))
}

// Print prints the report for people.
func (r *Report) Print(w *cli.Text) {
	w.Line("Candidate %s over decisions from %s to %s:", cli.Printable(r.Version), r.From, r.To)
	w.Row("users", r.Users, "")
	w.Row("decisions read", r.Read, "")
	w.Row("changed", r.Changed, "another outcome, reason, rule, time or channel, or not made")
	w.Row("added", r.Added, "later turns that are not recorded")
	w.Row("not replayable", r.NotReplayable, "their users are erased, or were merged later")
	w.Line("")
	r.printMatrix(w)
	if len(r.Rules) > 0 {
		w.Line("")
		w.Line("Changes, by rule and first reason:")
	}
	for _, row := range r.ChangeRows(mostRules) {
		w.Line("  %s  %s -> %s", row[0], row[1], row[2])
	}
	if more := len(r.Rules) - mostRules; more > 0 {
		w.Line("  and %d more kinds: see -o json", more)
	}
	if len(r.MostChanged) > 0 {
		w.Line("")
		w.Line("Users with the most changes:")
	}
	for _, u := range r.MostChanged {
		w.Line("  %s  user %s", cli.Number(u.N), cli.Printable(u.ID))
	}
	w.Line("")
	if r.Sample < 1 {
		w.Line("These are the decisions of a share of %v of the users.", r.Sample)
	}
	w.Line("Assumed: %s.", r.Assumption)
}

// MatrixHead and [Report.MatrixRows] are the matrix as a table: the outcomes that would be, in
// columns, of those that were.
func (r *Report) MatrixHead() []string { return append([]string{"was \\ would"}, outcomes...) }

var outcomes = []string{notify.Now.String(), notify.Later.String(), notify.Never.String(), none}

// MatrixRows see [Report.MatrixHead].
func (r *Report) MatrixRows() (rows [][]string) {
	for _, was := range outcomes {
		row := []string{was}
		for _, would := range outcomes {
			row = append(row, cli.Number(r.cells[Cell{Was: was, Would: would}]))
		}
		rows = append(rows, row)
	}
	return rows
}

// ChangeRows are at most n kinds of changes by rule and first reason, the most frequent first: how
// many, what was, and what would be.
func (r *Report) ChangeRows(n int) (rows [][]string) {
	for _, c := range r.Rules[:min(n, len(r.Rules))] {
		rows = append(rows, []string{cli.Number(c.N), by(c.Was, c.WasRule, c.WasFor), by(c.Would, c.WouldRule, c.WouldFor)})
	}
	return rows
}

func (r *Report) printMatrix(w *cli.Text) {
	table := tabwriter.NewWriter(w.W, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{r.MatrixHead()}, r.MatrixRows()...) {
		if _, err := table.Write([]byte(strings.Join(row, "\t") + "\t\n")); err != nil {
			w.Err = cmp.Or(w.Err, err)
		}
	}
	if err := table.Flush(); err != nil {
		w.Err = cmp.Or(w.Err, err)
	}
}

func by(outcome, rule, reason string) string {
	text := outcome
	if reason != "" {
		text += " " + reason
	}
	if rule != "" {
		text += " (rule " + cli.Printable(rule) + ")"
	}
	return text
}
