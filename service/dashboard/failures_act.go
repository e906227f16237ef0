package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/failed"
	"keyfold/service/status"
)

// failureVerb is one thing that pages do with failures.
type failureVerb struct {
	name   string // of the action, behind the point
	button string
	done   string
	final  bool
	do     func(context.Context, FailureOrder) (*FailureResult, error)
	takes  func(*FailurePlace) bool
}

func (f *Failures) verbs() []failureVerb {
	every := func(*FailurePlace) bool { return true }
	all := []failureVerb{
		{"retry", "retry", "retried", false, f.Retry, every},
		{"remove", "remove", "removed", true, f.Remove, every},
		{"archive", "archive", "archived", true, f.Archive, func(p *FailurePlace) bool { return p.Archive }},
	}
	return slices.DeleteFunc(all, func(v failureVerb) bool { return v.do == nil })
}

// failureActs are the buttons of a place; "": of all.
func (d *Dashboard) failureActs(where string) (all []failureAct) {
	from := d.sources.Failures
	for _, v := range from.verbs() {
		if slices.ContainsFunc(from.Places, func(p FailurePlace) bool { return (where == "" || p.Where == where) && v.takes(&p) }) {
			all = append(all, failureAct{"failures." + v.name, v.button})
		}
	}
	return all
}

// maxFailureForm is how large a form may be: the filter stands in it twice, escaped.
const maxFailureForm = 32 << 10

// failureActions are what pages do with failures.
func (d *Dashboard) failureActions() (all []Action) {
	for _, v := range d.sources.Failures.verbs() {
		all = append(all, Action{
			Name: "failures." + v.name, Form: maxFailureForm,
			Plan: func(ctx context.Context, form url.Values, p *Progress) (*Planned, error) {
				return d.planFailures(ctx, v, form.Get("of"), p)
			},
			Do: func(ctx context.Context, planned *Planned, p *Progress) (*Outcome, error) {
				return d.doFailures(ctx, v, planned, p)
			},
		})
	}
	return all
}

// failurePlan is what was planned.
type failurePlan struct {
	ask    failuresAsk
	places []plannedPlace
}

// plannedPlace is the part of one place.
type plannedPlace struct {
	of    *FailurePlace
	limit int64     // letters that matched
	until time.Time // the newest failure of them: those that came later were not asked for
	// untimed are those of them whose failure has no time.
	untimed map[failed.Brief]bool
	named   bool
	count   int64
}

// had reports whether a letter may have been there when the plan was made.
func (p *plannedPlace) had(l *failed.Letter) bool {
	if l.LastFailure.IsZero() {
		return p.untimed[l.Brief()]
	}
	return !l.LastFailure.After(p.until)
}

// note notes a letter that is there.
func (p *plannedPlace) note(l *failed.Letter) {
	switch {
	case l.LastFailure.IsZero():
		p.untimed[l.Brief()] = true
	case l.LastFailure.After(p.until):
		p.until = l.LastFailure
	}
}

// planOf reads the filter of a form.
func (d *Dashboard) planOf(of string) (*failurePlan, error) {
	query, err := url.ParseQuery(of)
	if err != nil {
		return nil, fmt.Errorf("the filter cannot be read: %w", err)
	}
	plan := &failurePlan{ask: readAsk(query, d.config.Now())}
	if plan.ask.Fault != "" {
		return nil, errors.New(plan.ask.Fault)
	}
	return plan, nil
}

// planFailures makes dry passes over the places that the filter names.
func (d *Dashboard) planFailures(ctx context.Context, v failureVerb, of string, p *Progress) (*Planned, error) {
	plan, err := d.planOf(of)
	if err != nil {
		return nil, err
	}
	planned := &Planned{Final: v.final, Of: plan.ask.Words(), Do: plan}
	planned.Lines = []string{"A dry run over " + planned.Of + ":"}
	named := plan.ask.Key != "" || plan.ask.Error != ""
	if named && v.name == "retry" {
		planned.Lines = append(planned.Lines, "They are named by an error or an id: those that a worker would refuse again go too.")
	}
	var rows [][]string
	met, unseen := int64(0), false
	for i := range d.sources.Failures.Places {
		place := &d.sources.Failures.Places[i]
		if plan.ask.Where != "" && plan.ask.Where != place.Where || !v.takes(place) {
			continue
		}
		one := plannedPlace{of: place, untimed: map[failed.Brief]bool{}, named: named}
		result, err := d.dryRun(ctx, v, plan, &one, p)
		switch {
		case err != nil:
			unseen = true
			planned.Lines = append(planned.Lines, fmt.Sprintf("%s: %v", place.Name, err))
		case result.Met > 0:
			met += result.Met
			planned.Count += result.Done
			planned.Lines = append(planned.Lines, lines(place, result)...)
			rows = append(rows, reasonRows(place, result.Reasons)...)
			plan.places = append(plan.places, one)
		}
	}
	v.word(planned, met, rows)
	if met == 0 && !unseen {
		planned.Lines = append(planned.Lines, "No failure is meant: there is nothing to do.")
	}
	return planned, nil
}

// word gives a plan its title, its table and its button.
func (v *failureVerb) word(planned *Planned, met int64, rows [][]string) {
	planned.Title = fmt.Sprintf("%s %s?", strings.ToUpper(v.button[:1])+v.button[1:], cli.Count(met, "failure"))
	if len(rows) > 0 {
		planned.Tables = []Titled{{Table: status.Table{Head: []string{"Where", "Reason", "Would go", "Stay"}, Rows: rows}}}
	}
	if planned.Count > 0 {
		planned.Button = v.button + " " + cli.Number(planned.Count)
	}
}

// dryRun counts what would be done in a place.
func (d *Dashboard) dryRun(ctx context.Context, v failureVerb, plan *failurePlan, one *plannedPlace, p *Progress) (result *FailureResult, err error) {
	order := FailureOrder{Where: one.of.Where, ID: plan.ask.Key, DryRun: true, Named: one.named, At: p.At, Matches: func(l *failed.Letter) bool {
		is := plan.ask.Matches(l)
		if is {
			one.note(l)
		}
		return is
	}}
	err = d.index.hold(ctx, func() error { result, err = v.do(ctx, order); return err })
	if err == nil {
		one.limit, one.count = result.Met, result.Done
	}
	return result, err
}

// doFailures does what was planned: with no more letters than were counted, and with none that
// failed after them. A place that fails does not keep the others from being done.
func (d *Dashboard) doFailures(ctx context.Context, v failureVerb, planned *Planned, p *Progress) (*Outcome, error) {
	plan := planned.Do.(*failurePlan)
	out := &Outcome{}
	var faults []error
	var left int64
	for i := range plan.places {
		one, gone := &plan.places[i], newGone()
		order := FailureOrder{
			Where: one.of.Where, ID: plan.ask.Key, Limit: one.limit, Named: one.named, At: p.At,
			Matches: func(l *failed.Letter) bool { return one.had(l) && plan.ask.Matches(l) },
			Gone:    gone.add,
		}
		var result *FailureResult
		err := d.index.hold(ctx, func() (err error) {
			result, err = v.do(ctx, order)
			d.index.drop(gone) // before the next pass, which does not meet them
			return err
		})
		faults = append(faults, err)
		if result != nil {
			out.Count += result.Done
			left += result.Failed
			out.Lines = append(out.Lines, lines(one.of, result)...)
		}
	}
	fault := errors.Join(faults...)
	text := fmt.Sprintf("%s of %s %s", cli.Number(out.Count), cli.Number(planned.Count), v.done)
	switch {
	case out.Count == planned.Count:
	case fault == nil && left == 0:
		text += ", the rest gone meanwhile"
	default:
		text += ", the rest is still there"
	}
	out.Lines = append([]string{text}, out.Lines...)
	return out, fault
}

// lines are those of the command, with the place before them.
func lines(place *FailurePlace, result *FailureResult) (all []string) {
	for _, line := range result.Lines {
		all = append(all, place.Name+": "+line)
	}
	return all
}

// causesShown are the reasons that a plan lists of a place.
const causesShown = 15

func reasonRows(place *FailurePlace, reasons failed.Reasons) (rows [][]string) {
	names := make([]string, 0, len(reasons))
	for name := range reasons {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := reasons[a], reasons[b]
		return cmp.Or(cmp.Compare(y.Done+y.Skipped, x.Done+x.Skipped), cmp.Compare(a, b))
	})
	for _, name := range names[:min(causesShown, len(names))] {
		n := reasons[name]
		rows = append(rows, []string{place.Name, cli.Printable(name), cli.Number(n.Done), cli.Number(n.Skipped)})
	}
	if more := len(names) - causesShown; more > 0 {
		rows = append(rows, []string{place.Name, fmt.Sprintf("and %d more reasons", more), "", ""})
	}
	return rows
}
