package published

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"keyfold/engine/notify/rule"
	"keyfold/internal/cli"
	"keyfold/service/notify/ruleset"
	"keyfold/sink/ledger/postgres"
)

// InForceWithin is how long a set takes to be in force in all workers: two looks, and a slow
// answer.
const InForceWithin = 2*Interval + Interval/2

// Done is a set that has come into force.
type Done struct {
	Version  int64            `json:"set_version"`
	Before   int64            `json:"before"`
	Document int64            `json:"document_of,omitempty"` // the set that a rollback repeats
	Findings *ruleset.Checked `json:"findings,omitempty"`
}

// Print says which set is in force.
func (d *Done) Print(w *cli.Text) {
	if d.Findings != nil {
		d.Findings.Print(w)
	}
	w.Line("%s", d.Sentence())
}

// Sentence is Print without the findings.
func (d *Done) Sentence() string {
	if d.Document != 0 {
		return fmt.Sprintf("the document of the set %d is published as the set %d in place of %d: workers decide by it within %v", d.Document, d.Version, d.Before, InForceWithin)
	}
	return fmt.Sprintf("published as the set %d in place of %d: workers decide by it within %v", d.Version, d.Before, InForceWithin)
}

// InForce reads the set in force.
func InForce(ctx context.Context, l *postgres.Ledger) (postgres.RuleSet, error) {
	active, err := l.Active(ctx)
	if err == nil && active.Set == 0 {
		err = &postgres.NotActiveError{}
	}
	if err != nil {
		return postgres.RuleSet{}, err
	}
	return l.RuleSet(ctx, active.Set)
}

// Follows adds to the findings what keeps a set from following the one in force, which must have
// this number.
func Follows(ctx context.Context, l *postgres.Ledger, found *ruleset.Checked, ifActive int64) error {
	before, err := InForce(ctx, l)
	switch {
	case err != nil:
		return err
	case before.Version != ifActive:
		return &postgres.NotActiveError{Active: before.Version}
	case bytes.Equal(before.Document, found.Text):
		return fmt.Errorf("the set %d in force is this document: there is nothing to publish", before.Version)
	}
	if previous, _ := rule.Read(before.Document); previous != nil { // one of a later version is no measure
		found.Follows(previous)
	}
	return nil
}

// Publish puts a set that was checked into force. With a fault nothing is published.
func Publish(ctx context.Context, l *postgres.Ledger, found *ruleset.Checked, p postgres.Publication) (*Done, error) {
	if err := found.Err(); err != nil {
		return nil, err
	}
	if found.Document == nil {
		return nil, errors.New("a set that cannot be used is not published")
	}
	p.Document = found.Text
	version, err := l.Publish(ctx, p)
	if err != nil {
		return nil, err
	}
	return &Done{Version: version, Before: p.IfActive, Findings: found}, nil
}

// Rollback is a document that is to come into force again.
type Rollback struct {
	Of     int64  // the number of the set that has the document
	Active int64  // the set in force
	Was    []byte // its document
	Is     []byte // the document of Of
}

// PlanRollback reads what a rollback needs. The error says why there is none.
func PlanRollback(ctx context.Context, l *postgres.Ledger, set int64) (*Rollback, error) {
	active, err := InForce(ctx, l)
	if err != nil {
		return nil, err
	}
	old, err := Set(ctx, l, set)
	if err != nil {
		return nil, err
	}
	if set == active.Version {
		return nil, fmt.Errorf("the set %d is in force already", set)
	}
	if err := ruleset.LintText(fmt.Sprintf("the set %d", set), old.Document).Err(); err != nil {
		return nil, fmt.Errorf("%w: this version of keyfold does not know all of it", err)
	}
	return &Rollback{Of: set, Active: active.Version, Was: active.Document, Is: old.Document}, nil
}

// Do puts the document into force, if the set is still in force that was when it was planned.
func (r *Rollback) Do(ctx context.Context, l *postgres.Ledger, by, note string) (*Done, error) {
	version, err := l.Publish(ctx, postgres.Publication{
		Document: r.Is, By: by, Note: cmp.Or(note, fmt.Sprintf("rollback to %d", r.Of)), IfActive: r.Active,
	})
	if err != nil {
		return nil, err
	}
	return &Done{Version: version, Before: r.Active, Document: r.Of}, nil
}
