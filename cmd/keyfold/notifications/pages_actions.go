package notifications

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"keyfold/engine/notify/rule"
	"keyfold/internal/cli"
	"keyfold/service/dashboard"
	"keyfold/service/notify/published"
	"keyfold/service/notify/ruleset"
	"keyfold/service/notify/simulate"
	"keyfold/service/status"
	"keyfold/sink/ledger/postgres"
)

const (
	longestSet   = 4 << 20 // bytes of the form that uploads one
	mostDays     = 7       // that a page simulates
	kindsShown   = 20      // of changes
	findingsMost = 100
	longestNote  = 200 // characters, as the page's field takes them
)

// actions are what the page of rules can change.
func (p *Pages) actions() []dashboard.Action {
	return []dashboard.Action{
		{Name: dashboard.CheckRules, Form: longestSet, Plan: p.planCheck},
		{Name: dashboard.SimulateRules, Form: longestSet, Plan: p.planSimulate},
		{Name: dashboard.PublishRules, Form: longestSet, Plan: p.planPublish, Do: p.doPublish},
		{Name: dashboard.RollBackRules, Plan: p.planRollback, Do: p.doRollback},
	}
}

// uploaded reads the set of a form and runs its test cases.
func uploaded(form url.Values) (*ruleset.Checked, error) {
	text := form.Get(dashboard.FieldFile)
	if text == "" {
		return nil, errors.New("no file was sent, or an empty one: choose the document on the page")
	}
	found := ruleset.LintText("the document", []byte(text))
	found.Test()
	return found, nil
}

// findings shows what was found: each fault, each test case that failed, and that it can be used.
func findings(p *dashboard.Planned, found *ruleset.Checked) {
	faults := status.Table{Head: []string{"Fault", "Line", "Rule", "What is wrong"}}
	for _, f := range found.Faults[:min(findingsMost, len(found.Faults))] {
		kind := "fault"
		if f.Warning {
			kind = "warning"
		}
		faults.Rows = append(faults.Rows, []string{kind + " at " + f.Path, strconv.Itoa(f.Line), f.Rule, f.Text})
	}
	add(p, "Faults and warnings", faults)
	failed := status.Table{Head: []string{"Test case", "Found, and expected"}}
	for _, f := range found.Failures[:min(findingsMost, len(found.Failures))] {
		failed.Rows = append(failed.Rows, []string{f.Case, f.Text})
	}
	add(p, "Test cases that failed", failed)
	if err := found.Err(); err != nil {
		p.Lines = append(p.Lines, "✗ "+err.Error())
		return
	}
	cases := fmt.Sprintf("✓ %s passed", cli.Count(int64(found.Cases), "test case"))
	if found.Cases == 0 {
		cases = "! it has no test cases"
	}
	p.Lines = append(p.Lines, fmt.Sprintf("✓ %s, version %s: it can be used", cli.Count(int64(found.Rules), "rule"), cli.Printable(found.Version)), cases)
}

func add(p *dashboard.Planned, title string, t status.Table) {
	if len(t.Rows) > 0 {
		p.Tables = append(p.Tables, dashboard.Titled{Title: title, Table: t})
	}
}

// noteIn returns the note of a form.
func noteIn(form url.Values) (string, error) {
	note := form.Get(dashboard.FieldNote)
	if utf8.RuneCountInString(note) > longestNote {
		return "", fmt.Errorf("the note has more than %d characters: make it shorter, lists show it", longestNote)
	}
	if !utf8.ValidString(note) || strings.Contains(note, "\x00") {
		return "", errors.New("the note has characters that cannot be stored: write it anew")
	}
	return note, nil
}

func (p *Pages) planCheck(_ context.Context, form url.Values, _ *dashboard.Progress) (*dashboard.Planned, error) {
	planned, _, err := checked(form)
	return planned, err
}

// checked says what was found of the set of a form.
func checked(form url.Values) (*dashboard.Planned, *ruleset.Checked, error) {
	found, err := uploaded(form)
	if err != nil {
		return nil, nil, err
	}
	planned := &dashboard.Planned{Title: "The document was checked"}
	findings(planned, found)
	return planned, found, nil
}

func (p *Pages) planSimulate(ctx context.Context, form url.Values, progress *dashboard.Progress) (*dashboard.Planned, error) {
	planned, found, err := checked(form)
	if err != nil || found.Document == nil {
		return planned, err
	}
	planned.Title = "The document was checked and simulated"
	l, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	return planned, p.simulated(ctx, l, planned, found, form, progress)
}

// simulated shows what the document would have changed of the last days.
func (p *Pages) simulated(ctx context.Context, l *postgres.Ledger, planned *dashboard.Planned, found *ruleset.Checked, form url.Values, progress *dashboard.Progress) error {
	days, err := strconv.Atoi(form.Get(dashboard.FieldLast))
	if err != nil || days < 1 || days > mostDays {
		return fmt.Errorf("decisions of 1 to %d days can be made anew", mostDays)
	}
	local, err := p.app.Notify.Hours.Local()
	if err != nil {
		return err
	}
	c := simulate.Config{From: 1, To: 2, Set: rule.Compile(found.Document, local), Done: func(n int64) { progress.At(n, 0) }}
	c.Sample, err = strconv.ParseFloat(form.Get(dashboard.FieldSample), 64)
	if err = errors.Join(err, c.Validate()); err != nil {
		return fmt.Errorf("the share of the users: %w", err)
	}
	report, err := simulate.Last(ctx, l, c, time.Duration(days)*24*time.Hour)
	if err != nil {
		return err
	}
	planned.Lines = append(planned.Lines, report.Headline())
	if report.Sample < 1 {
		planned.Lines = append(planned.Lines, fmt.Sprintf("These are the decisions of a share of %v of the users.", report.Sample))
	}
	planned.Lines = append(planned.Lines, "Assumed: "+report.Assumption+".")
	add(planned, fmt.Sprintf("Decisions from %s to %s", report.From, report.To), status.Table{Head: report.MatrixHead(), Rows: report.MatrixRows()})
	add(planned, "Changes, by rule and first reason", status.Table{Head: []string{"Decisions", "Was", "Would be"}, Rows: report.ChangeRows(kindsShown)})
	return nil
}

// publication is a set that was checked and may come into force.
type publication struct {
	found    *ruleset.Checked
	note     string
	ifActive int64
}

func (p *Pages) planPublish(ctx context.Context, form url.Values, progress *dashboard.Progress) (*dashboard.Planned, error) {
	found, err := uploaded(form)
	if err != nil {
		return nil, err
	}
	one := publication{found: found}
	if one.note, err = noteIn(form); err != nil {
		return nil, err
	}
	if one.ifActive, err = strconv.ParseInt(form.Get(dashboard.FieldIfActive), 10, 64); err != nil {
		return nil, errors.New("the page did not say which set is in force: open it again")
	}
	if one.note == "" {
		return nil, errors.New("say why the set is published: the list shows it")
	}
	l, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	if found.Document != nil {
		if err := published.Follows(ctx, l, found, one.ifActive); err != nil {
			return nil, told(ctx, l, err)
		}
	}
	planned := &dashboard.Planned{Title: fmt.Sprintf("Publish the document in place of the set %d?", one.ifActive), Of: fmt.Sprintf("in place of the set %d, version %s", one.ifActive, found.Version), Count: 1, Do: one}
	if findings(planned, found); found.Err() != nil {
		planned.Title = "The document cannot be published"
		return planned, nil //nolint:nilerr // the plan shows the faults
	}
	planned.Lines = append(planned.Lines, "note: "+cli.Printable(one.note))
	if err := p.simulated(ctx, l, planned, found, form, progress); err != nil {
		return nil, err
	}
	planned.Button = fmt.Sprintf("publish as %d, if %d is active", one.ifActive+1, one.ifActive)
	return planned, nil
}

func (p *Pages) doPublish(ctx context.Context, planned *dashboard.Planned, _ *dashboard.Progress) (*dashboard.Outcome, error) {
	one := planned.Do.(publication)
	l, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	done, err := published.Publish(ctx, l, one.found, postgres.Publication{By: planned.By, Note: one.note, IfActive: one.ifActive})
	return outcome(ctx, l, done, err)
}

func outcome(ctx context.Context, l *postgres.Ledger, done *published.Done, err error) (*dashboard.Outcome, error) {
	if err != nil {
		return nil, told(ctx, l, err)
	}
	return &dashboard.Outcome{Lines: []string{done.Sentence()}, Count: 1}, nil
}

// told says by whom the other set came into force that a publication has met.
func told(ctx context.Context, l *postgres.Ledger, err error) error {
	other, ok := errors.AsType[*postgres.NotActiveError](err)
	if !ok || other.Active == 0 {
		return err
	}
	set, readErr := published.Set(ctx, l, other.Active)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	return fmt.Errorf("%d is in force, made by %s at %s (%s): nothing was published; open the page of rules again, and publish from there if it is meant",
		set.Version, cli.Printable(set.PublishedBy), cli.At(set.PublishedAt.Time()), cli.Printable(set.Note))
}

// rollback is a document that may come into force again.
type rollback struct {
	*published.Rollback
	note string
}

func (p *Pages) planRollback(ctx context.Context, form url.Values, _ *dashboard.Progress) (*dashboard.Planned, error) {
	set, err := strconv.ParseInt(form.Get(dashboard.FieldSet), 10, 64)
	if err != nil {
		return nil, errors.New("no set is named: open its page, and go on from there")
	}
	note, err := noteIn(form)
	if err != nil {
		return nil, err
	}
	l, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	back, err := published.PlanRollback(ctx, l, set)
	if err != nil {
		return nil, err
	}
	diff, err := ruleset.DiffOf(back.Active, back.Of, back.Was, back.Is)
	if err != nil {
		return nil, err
	}
	planned := &dashboard.Planned{
		Title:  fmt.Sprintf("Put the document of the set %d into force again, in place of %d?", back.Of, back.Active),
		Lines:  []string{"Test cases and versions of rules are not compared: it was in force before."},
		Button: fmt.Sprintf("publish it as %d, if %d is active", back.Active+1, back.Active),
		Of:     fmt.Sprintf("the document of the set %d in place of %d", back.Of, back.Active), Count: 1, Do: rollback{back, note},
	}
	table := dashboard.DiffTable(diff)
	table.Rows = table.Rows[:min(findingsMost, len(table.Rows))]
	add(planned, "What would be another", table)
	return planned, nil
}

func (p *Pages) doRollback(ctx context.Context, planned *dashboard.Planned, _ *dashboard.Progress) (*dashboard.Outcome, error) {
	one := planned.Do.(rollback)
	l, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	done, err := one.Do(ctx, l, planned.By, one.note)
	return outcome(ctx, l, done, err)
}
