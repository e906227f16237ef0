package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"keyfold/service/notify/ruleset"
	"keyfold/service/status"
	"keyfold/source/httpapi"
)

// Rules is where the pages of sets of rules are read. Each function returns what a command prints.
type Rules struct {
	Program string // whose commands the pages name, such as "keyfold notify"

	// Sets returns at most n sets, newest first.
	Sets func(ctx context.Context, n int) (*ruleset.List, error)
	// Set returns a set with its rules; nil: there is none of this number.
	Set func(ctx context.Context, number int64) (*ruleset.Shown, error)
	// Diff compares two sets; nil: one of them is not there. A nil Diff: there is one set alone.
	Diff func(ctx context.Context, a, b int64) (*ruleset.Diff, error)
	// Shadow returns what the decisions by a candidate came to; nil: there are no candidates.
	Shadow func(ctx context.Context, samples int) (*ruleset.Shadow, error)
}

// What the page of rules can change, by the names of [Action].
const (
	CheckRules    = "rules.check"
	SimulateRules = "rules.simulate"
	PublishRules  = "rules.publish"
	RollBackRules = "rules.rollback"
)

// Fields of the forms of these.
const (
	FieldFile     = "file"
	FieldNote     = "note"
	FieldIfActive = "if-active"
	FieldLast     = "last"   // days
	FieldSample   = "sample" // share of the users
	FieldSet      = "set"
)

const (
	rulesPath = "/rules"
	rulePath  = "/rules/" // a number stands behind it

	setsShown    = 50
	samplesShown = 20
	rulesShown   = 60
	differsShown = 100

	// How many bytes these may have on a page at most.
	heaviestSets    = 30 << 10
	heaviestSamples = 15 << 10
	heaviestRules   = 50 << 10
)

// rulesView is the page of all sets.
type rulesView struct {
	Program   string
	Fault     string
	Sets      []ruleset.Listed
	More      bool // there are older ones
	InForce   *ruleset.Listed
	Shadow    *ruleset.Shadow
	Pairs     status.Table
	ShadowBad string // why it cannot be shown

	Check, Simulate, Publish bool // can be asked for
	Days, Samples            []choice
}

func (d *Dashboard) rules(r *httpapi.Request) *httpapi.Answer {
	ctx, cancel := context.WithTimeout(r.Context(), readBound)
	defer cancel()
	from := d.sources.Rules
	v := rulesView{Program: from.Program, Check: d.offers(r, CheckRules), Simulate: d.offers(r, SimulateRules), Publish: d.offers(r, PublishRules)}
	v.Days = []choice{{Value: "1", Name: "1 day"}, {Value: "7", Name: "7 days", Chosen: true}}
	v.Samples = []choice{{Value: "1", Name: "all users", Chosen: true}, {Value: "0.1", Name: "10 % of the users"}, {Value: "0.01", Name: "1 % of the users"}}
	list, err := from.Sets(ctx, setsShown+1)
	if err != nil {
		v.Fault = inTime("the sets of rules", err)
		return d.page(r, "rules", "Rules", d.seenNow(), v)
	}
	v.InForce, v.Sets = list.InForce(), list.Sets[:min(setsShown, len(list.Sets))]
	left := heaviestSets
	v.Sets = v.Sets[:fits(&left, v.Sets, setWeight)]
	v.More = len(v.Sets) < len(list.Sets)
	v.shadow(ctx, from)
	return d.page(r, "rules", "Rules", d.seenNow(), v)
}

func (v *rulesView) shadow(ctx context.Context, from *Rules) {
	if from.Shadow == nil {
		return
	}
	s, err := from.Shadow(ctx, samplesShown)
	if err != nil {
		v.ShadowBad = inTime("what the candidate came to", err)
		return
	}
	if s.Candidate == 0 {
		return
	}
	left := heaviestSamples
	s.Samples = s.Samples[:fits(&left, s.Samples, sampleWeight)]
	v.Shadow, v.Pairs.Head = s, []string{"Was", "Would", "Decisions", "Differ"}
	for _, p := range s.Pairs {
		v.Pairs.Rows = append(v.Pairs.Rows, []string{p.Was, p.Would, strconv.FormatInt(p.Decisions, 10), strconv.FormatInt(p.Differ, 10)})
	}
}

// ruleView is the page of a set.
type ruleView struct {
	Program  string
	Fault    string
	Number   int64
	Before   int64 // the set before it; 0: none
	Set      *ruleset.Shown
	More     int  // rules that are not shown
	RollBack bool // can be asked for
}

// diffView is the page of what differs between two sets.
type diffView struct {
	Program string
	Fault   string
	A, B    int64
	Same    string
	Table   status.Table
	More    int
}

func (d *Dashboard) rule(r *httpapi.Request) *httpapi.Answer {
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, d.config.Path), rulePath), "/")
	number, ok := setNumber(parts[0])
	switch {
	case ok && len(parts) == 1:
		return d.ruleSet(r, number)
	case ok && len(parts) == 3 && parts[1] == "diff" && d.sources.Rules.Diff != nil:
		if other, ok := setNumber(parts[2]); ok {
			return d.ruleDiff(r, other, number)
		}
	}
	return noSet("no such page: a set is a number, such as /rules/42, and /rules/42/diff/41 compares it with another one")
}

func setNumber(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n > 0
}

func noSet(why string) *httpapi.Answer {
	return httpapi.Refuse(http.StatusNotFound, httpapi.Fault{Reason: "not_found", Error: why})
}

func (d *Dashboard) ruleSet(r *httpapi.Request, number int64) *httpapi.Answer {
	ctx, cancel := context.WithTimeout(r.Context(), readBound)
	defer cancel()
	from := d.sources.Rules
	v := ruleView{Program: from.Program, Number: number}
	set, err := from.Set(ctx, number)
	switch {
	case err != nil:
		v.Fault = inTime("the set of rules", err)
	case set == nil:
		return noSet(fmt.Sprintf("no set of rules has the number %d", number))
	default:
		all, left := set.Each, heaviestRules
		set.Each = all[:fits(&left, all[:min(rulesShown, len(all))], ruleWeight)]
		v.More = len(all) - len(set.Each)
		v.Set, v.RollBack = set, !set.InForce && d.offers(r, RollBackRules)
		if from.Diff != nil {
			v.Before = number - 1
		}
	}
	return d.page(r, "rule", fmt.Sprintf("Set %d", number), d.seenNow(), v)
}

func (d *Dashboard) ruleDiff(r *httpapi.Request, a, b int64) *httpapi.Answer {
	ctx, cancel := context.WithTimeout(r.Context(), readBound)
	defer cancel()
	v := diffView{Program: d.sources.Rules.Program, A: a, B: b}
	diff, err := d.sources.Rules.Diff(ctx, a, b)
	switch {
	case err != nil:
		v.Fault = inTime("the sets of rules", err)
	case diff == nil:
		return noSet(fmt.Sprintf("one of the sets %d and %d is not there", a, b))
	case len(diff.Differences) == 0:
		v.Same = diff.Same()
	default:
		v.Table = DiffTable(diff)
		all, left := v.Table.Rows, heaviestRules
		v.Table.Rows = all[:fits(&left, all[:min(differsShown, len(all))], rowWeight)]
		v.More = len(all) - len(v.Table.Rows)
	}
	return d.page(r, "rule_diff", fmt.Sprintf("Sets %d and %d", a, b), d.seenNow(), v)
}

// tagsOfRow is about how many bytes stand around the texts of a set, or of a rule.
const tagsOfRow = 400

func setWeight(s ruleset.Listed) int {
	return tagsOfRow + rowWeight([]string{s.By, s.Note, s.Document})
}

func sampleWeight(s ruleset.ShadowSample) int {
	return rowWeight(slices.Concat([]string{s.Decision, s.Decision, s.At, s.Set, s.Was, s.Would}, s.WasReasons, s.WouldReasons))
}

func ruleWeight(r ruleset.ShownRule) (n int) {
	for _, one := range []string{r.Description, string(r.Conditions), string(r.Action)} {
		n += escaped(text(one))
	}
	return n + tagsOfRow + rowWeight([]string{r.Name, r.Version})
}

// DiffTable is what differs, as a table.
func DiffTable(diff *ruleset.Diff) status.Table {
	t := status.Table{Head: []string{"What", fmt.Sprintf("In %d", diff.A), fmt.Sprintf("In %d", diff.B)}}
	for i := range diff.Differences {
		t.Rows = append(t.Rows, diff.Differences[i].Row())
	}
	return t
}
