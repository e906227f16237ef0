package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/cure"
)

// RuleSet is a set of rules that was published.
type RuleSet struct {
	Version     int64 // its number, from 1
	Document    []byte
	Checksum    []byte // SHA-256 of the document
	PublishedAt engine.Millis
	PublishedBy string
	Note        string
}

// Publication is a document that is to come into force.
type Publication struct {
	Document []byte
	By       string
	Note     string
	IfActive int64 // the set that is in force before; 0: none
}

// NotActiveError says that another set is in force than a publication expects: nothing was
// published.
type NotActiveError struct{ Active int64 } // 0: none

// Error names the set and the cure.
func (e *NotActiveError) Error() string {
	if e.Active == 0 {
		return "no set of rules is published: run " + setupCommand.String()
	}
	return fmt.Sprintf("the set %d is in force: look at %s, and publish again with --if-active %d if that is meant", e.Active, rulesCommand, e.Active)
}

// ErrNoSet: no set of this number was published.
var ErrNoSet = cure.New("no such set of rules: %s shows those that were published", rulesCommand)

// Active are the numbers of the set in force and of the candidate beside it; 0: none.
type Active struct{ Set, Shadow int64 }

// Active reads which set is in force.
func (l *Ledger) Active(ctx context.Context) (a Active, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	err = l.pool.QueryRow(ctx, "SELECT set_version, coalesce(shadow_version, 0) FROM notify_active").Scan(&a.Set, &a.Shadow)
	if errors.Is(err, pgx.ErrNoRows) {
		return a, nil
	}
	return a, mark(ctx, "read which rules are in force", err)
}

const selectSets = `SELECT set_version, document::text, checksum, published_at, published_by, note FROM notify_rule_sets`

// RuleSet reads a set. The error is [ErrNoSet] where there is none of this number.
func (l *Ledger) RuleSet(ctx context.Context, version int64) (RuleSet, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	s, err := scanSet(l.pool.QueryRow(ctx, selectSets+" WHERE set_version = $1", version))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return s, ErrNoSet
	case err != nil:
		return s, mark(ctx, "read a set of rules", err)
	}
	if sum := sha256.Sum256(s.Document); !bytes.Equal(sum[:], s.Checksum) {
		return s, damaged(fmt.Sprintf("the set of rules %d", version), errors.New("its checksum is another one"))
	}
	return s, nil
}

// RuleSets reads at most n sets, newest first.
func (l *Ledger) RuleSets(ctx context.Context, n int) (all []RuleSet, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	rows, err := l.pool.Query(ctx, selectSets+" ORDER BY set_version DESC LIMIT $1", n)
	if err == nil {
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (RuleSet, error) { return scanSet(row) })
	}
	return all, mark(ctx, "list the sets of rules", err)
}

func scanSet(row pgx.Row) (s RuleSet, err error) {
	var at time.Time
	err = row.Scan(&s.Version, &s.Document, &s.Checksum, &at, &s.PublishedBy, &s.Note)
	s.PublishedAt = millisOf(&at)
	return s, err
}

// Publish stores a document under the next number and puts it into force, in one
// transaction. It does not judge the document. The error is a [*NotActiveError] where
// another set is in force than the publication expects.
func (l *Ledger) Publish(ctx context.Context, p Publication) (version int64, err error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	var published *int64
	var active int64
	err = l.pool.QueryRow(ctx, "SELECT published, active FROM notify_publish($1, $2, $3, $4)",
		string(p.Document), p.By, p.Note, p.IfActive).Scan(&published, &active)
	switch {
	case err != nil:
		return 0, mark(ctx, "publish a set of rules", err)
	case published == nil:
		return 0, &NotActiveError{active}
	}
	return *published, nil
}
