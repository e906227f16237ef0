package decisions

import (
	"errors"
	"fmt"

	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/service/notify/preference"
	"keyfold/sink/ledger"
)

// merge makes two users one.
type merge[P Program] struct {
	Alias            string `arg:"" help:"The id that stands for USER from then on, such as that of a visitor who has signed in."`
	User             string `arg:"" help:"The id that stays."`
	cli.Confirmation `embed:""`
}

// Help is the long text.
func (c *merge[P]) Help() string {
	return fmt.Sprintf(`The decisions, preferences and waiting notifications of both become those of USER: what was sent to either counts
against one cap. What comes for ALIAS later is decided for USER. The preferences of USER hold; what ALIAS has muted,
turned off, paused or capped holds too. Erasing either id erases the person.

There is no way back. A second run changes nothing. Decisions may be made meanwhile.

Examples:
  %[1]s user merge anon-77 anna --dry-run
  %[1]s user merge anon-77 anna`, textsOf[P]().Command)
}

func (c *merge[P]) Check(p P) error {
	return errors.Join(preference.CheckUser(c.Alias), preference.CheckUser(c.User), p.CheckConfirm(c.Confirmation), p.CheckLedger())
}

// mergedUsers is what was done.
type mergedUsers struct {
	ledger.Merged
	DryRun bool `json:"dry_run"`
}

// Run looks at what there is and, once it is confirmed, merges it.
func (c *merge[P]) Run(p P) error {
	report := &mergedUsers{DryRun: c.DryRun}
	if err := p.ReadLedger(func(l Ledger) error { return report.look(p, l, c.Alias, c.User) }); err != nil {
		return err
	}
	if !c.DryRun && !report.Already {
		if err := p.Confirm(c.Confirmation, fmt.Sprintf("Merge %s (%s, %s that wait) into %s? There is no way back.", cli.Printable(c.Alias),
			cli.Count(int64(report.Decisions), "decision"), cli.Number(int64(report.Waiting)), cli.Printable(c.User))); err != nil {
			return err
		}
		if err := p.ChangeUsers(func(l ledger.Merger) (err error) {
			report.Merged, err = ledger.MergeUsers(p.Context(), l, c.Alias, c.User, engine.Now())
			return err
		}); err != nil {
			return fmt.Errorf("users %s and %s are not merged: %w", cli.Printable(c.Alias), cli.Printable(c.User), err)
		}
	}
	return p.Emit(report, func(w *cli.Text) { report.print(w, c.Confirmation) })
}

// look counts what the alias has.
func (m *mergedUsers) look(p Program, l Ledger, alias, user string) (err error) {
	if m.Merged, err = ledger.LookAtMerge(p.Context(), l, alias, user); err != nil || m.Already {
		return err
	}
	records, err := l.CountRecords(p.Context(), alias)
	m.Decisions = int(records)
	return err
}

func (m *mergedUsers) print(w *cli.Text, c cli.Confirmation) {
	if m.Already {
		w.Line("%s is an id of user %s already", cli.Printable(m.Alias), cli.Printable(m.Into))
		return
	}
	done := "is merged"
	if c.DryRun {
		done = c.Done("merged")
	}
	w.Line("%s with %s and %s %s into user %s", cli.Printable(m.Alias), cli.Count(int64(m.Decisions), "decision"),
		cli.Count(int64(m.Waiting), "waiting notification"), done, cli.Printable(m.Into))
}
