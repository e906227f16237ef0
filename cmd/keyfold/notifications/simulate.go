package notifications

import (
	"errors"
	"fmt"
	"os"
	"time"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/notifier/ruleset"
	"keyfold/cmd/notifier/simulate"
	"keyfold/engine"
	"keyfold/sink/ledger/postgres"
)

// simulateCmd decides past notifications anew.
type simulateCmd struct {
	File   string   `arg:"" help:"The candidate: a set of rules, one JSON document."`
	Last   cli.Span `default:"7d" help:"Decide the decisions of this time anew."`
	User   string   `help:"Only this user."`
	Sample float64  `default:"1" help:"Share of the users, such as 0.1; the same users each time."`
}

// Help is the long text.
func (c *simulateCmd) Help() string {
	return `It shows what would have changed under the candidate, from what to what and by which rule. Nothing is stored or sent,
and no lock is held. Each user's decisions are made anew in their order, with the recorded times, preferences
and cosines, from the user's state before them. Set NOTIFY_ZONE, NOTIFY_MORNING and NOTIFY_DIGEST_TIMES as
the workers have them: a simulation of the set that made the decisions then changes none.

Examples:
  keyfold notify rules simulate rules.json
  keyfold notify rules simulate rules.json --last 24h --sample 0.1
  keyfold notify rules simulate rules.json --user anna -o json`
}

func (c *simulateCmd) config() simulate.Config {
	now := engine.Now()
	return simulate.Config{From: now - engine.Millis(time.Duration(c.Last).Milliseconds()), To: now, User: c.User, Sample: c.Sample}
}

func (c *simulateCmd) Check(a *app.App) error {
	config := c.config()
	_, hours := a.Notify.Hours.Local()
	file, err := os.Open(c.File)
	if err != nil {
		err = fmt.Errorf("the candidate: %w", err)
	} else {
		err = file.Close()
	}
	return errors.Join(err, config.Validate(), hours, a.CheckLedger())
}

// Run prints what would change.
func (c *simulateCmd) Run(a *app.App) error {
	local, err := a.Notify.Hours.Local()
	if err != nil {
		return err
	}
	config := c.config()
	if config.Set, err = ruleset.Read(c.File, local); err != nil {
		return err
	}
	return a.WithLedger(func(l *postgres.Ledger) error {
		bar := a.Progress("decide anew", 0, nil)
		config.Done = func(n int64) { bar.At(int(n)) }
		report, err := simulate.Run(a.Ctx, l, config)
		bar.Done()
		if err != nil {
			return err
		}
		return a.Emit(report, report.Print)
	})
}
