package notifications

import (
	"errors"

	"keyfold/cmd/decisions"
	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/service/notify/published"
	"keyfold/service/notify/ruleset"

	"keyfold/engine"
	"keyfold/sink/ledger/postgres"
)

// rulesShadowCmd has workers decide a second time.
type rulesShadowCmd struct {
	File  string `arg:"" optional:"" help:"The candidate: one JSON document. Without it, what the candidate came to is shown."`
	Off   bool   `help:"Workers decide once again; what is known of the candidate stays."`
	Limit int    `default:"20" help:"At most so many decisions that differ, newest first."`
}

// Help is the long text.
func (c *rulesShadowCmd) Help() string {
	return `Workers decide each notification a second time, by the candidate and from the same state, without effect. Each
decision is compared by itself: what later ones would come to after it is not, because the state is that which the set in
force leaves. Counts are of all decisions, samples of some of those that differ. They are written every 2 s, and those of
a worker's last seconds are only in its metrics. A further candidate takes the place of this one.

Examples:
  keyfold notify rules shadow rules.json
  keyfold notify rules shadow
  keyfold notify rules shadow --off`
}

func (c *rulesShadowCmd) Check(a *app.App) error {
	var faults engine.Faults
	faults.If(c.Off && c.File != "", "--off and a file exclude each other: give one of them")
	faults.If(c.Limit < 1, "--limit must be at least 1")
	if c.File != "" {
		faults = append(faults, (&decisions.RuleFile{File: c.File}).CheckFile())
	}
	return errors.Join(faults.Err(), a.CheckLedger())
}

// Run begins, ends or shows it.
func (c *rulesShadowCmd) Run(a *app.App) error {
	switch {
	case c.File != "":
		return c.begin(a)
	case c.Off:
		return a.WithLedger(func(l *postgres.Ledger) error {
			if err := l.EndShadow(a.Ctx); err != nil {
				return err
			}
			return a.Emit(map[string]any{"shadow": false}, func(w *cli.Text) {
				w.Line("within %v workers decide once: `keyfold notify rules shadow` shows what the candidate came to", published.InForceWithin)
			})
		})
	default:
		return c.show(a)
	}
}

func (c *rulesShadowCmd) begin(a *app.App) error {
	found, err := ruleset.Lint(c.File)
	if err != nil {
		return err
	}
	if err := found.Err(); err != nil {
		return errors.Join(a.Emit(found, found.Print), err)
	}
	return a.WithLedger(func(l *postgres.Ledger) error {
		version, err := l.SetShadow(a.Ctx, found.Text)
		if err != nil {
			return err
		}
		return a.Emit(map[string]any{"shadow": true, "candidate": version, "findings": found}, func(w *cli.Text) {
			found.Print(w)
			w.Line("within %v workers decide by it a second time, without effect: `keyfold notify rules shadow` shows what it comes to", published.InForceWithin)
		})
	})
}

func (c *rulesShadowCmd) show(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		r, err := published.ShadowOf(a.Ctx, l, c.Limit)
		if err != nil {
			return err
		}
		return a.Emit(r, func(w *cli.Text) {
			if r.Candidate == 0 {
				w.Line("there is no candidate: `keyfold notify rules shadow FILE` begins with one")
				return
			}
			r.Print(w)
		})
	})
}
