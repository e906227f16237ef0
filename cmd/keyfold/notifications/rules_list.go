package notifications

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/sink/ledger/postgres"
)

// rulesListCmd lists sets.
type rulesListCmd struct {
	Limit int `default:"20" help:"At most so many, newest first."`
}

// Help is the long text.
func (c *rulesListCmd) Help() string {
	return `Examples:
  keyfold notify rules list
  keyfold notify rules list --limit 200 -o json`
}

func (c *rulesListCmd) Check(a *app.App) error {
	var faults engine.Faults
	faults.If(c.Limit < 1, "--limit must be at least 1")
	return errors.Join(faults.Err(), a.CheckLedger())
}

// listedSet is a set as the list has it.
type listedSet struct {
	Version     int64         `json:"set_version"`
	InForce     bool          `json:"in_force"`
	PublishedAt engine.Millis `json:"-"`
	At          string        `json:"published_at"`
	By          string        `json:"published_by"`
	Note        string        `json:"note"`
	Document    string        `json:"document_version"` // the document's own name for itself
	Rules       int           `json:"rules"`
	Checksum    string        `json:"checksum"` // SHA-256, in hexadecimal digits
}

// Run prints the sets.
func (c *rulesListCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		active, err := l.Active(a.Ctx)
		if err != nil {
			return err
		}
		sets, err := l.RuleSets(a.Ctx, c.Limit)
		if err != nil {
			return err
		}
		listed := make([]listedSet, len(sets))
		for i := range sets {
			listed[i] = listedOf(&sets[i], active.Set)
		}
		return a.Emit(map[string]any{"sets": listed}, func(w *cli.Text) {
			for _, s := range listed {
				mark := " "
				if s.InForce {
					mark = "*"
				}
				w.Line("%s %4d  %s  %-12s  %s, version %s  %s", mark, s.Version, s.At, cli.Printable(s.By),
					cli.Count(int64(s.Rules), "rule"), cli.Printable(s.Document), cli.Printable(s.Note))
			}
			if len(listed) == 0 {
				w.Line("no set of rules is published: run `keyfold notify setup`")
			}
		})
	})
}

// listedOf reads of a document what every version of keyfold knows.
func listedOf(s *postgres.RuleSet, inForce int64) listedSet {
	var document struct {
		Version string            `json:"version"`
		Rules   []json.RawMessage `json:"rules"`
	}
	_ = json.Unmarshal(s.Document, &document) // what it cannot say is left out
	return listedSet{
		Version: s.Version, InForce: s.Version == inForce, At: cli.At(s.PublishedAt.Time()), By: s.PublishedBy, Note: s.Note,
		Document: document.Version, Rules: len(document.Rules), Checksum: hex.EncodeToString(s.Checksum),
	}
}

// rulesShowCmd prints a set.
type rulesShowCmd struct {
	Set int64 `arg:"" optional:"" name:"set" help:"The number of the set; none: the one in force."`
}

// Help is the long text.
func (c *rulesShowCmd) Help() string {
	return `The document is printed as it was published: a file to change.

Examples:
  keyfold notify rules show > rules.json
  keyfold notify rules show 41`
}

func (c *rulesShowCmd) Check(a *app.App) error {
	var faults engine.Faults
	faults.If(c.Set < 0, "the set %d: numbers begin at 1: `keyfold notify rules list` shows them", c.Set)
	return errors.Join(faults.Err(), a.CheckLedger())
}

// Run prints the document.
func (c *rulesShowCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		set, err := numbered(a, l, c.Set)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(a.Stdout, strings.TrimSpace(string(set.Document)))
		return err
	})
}

// numbered reads a set; 0: the one in force.
func numbered(a *app.App, l *postgres.Ledger, version int64) (postgres.RuleSet, error) {
	if version == 0 {
		return inForce(a.Ctx, l)
	}
	set, err := l.RuleSet(a.Ctx, version)
	if err != nil {
		err = fmt.Errorf("the set %d: %w", version, err)
	}
	return set, err
}
