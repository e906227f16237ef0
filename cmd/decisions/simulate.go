package decisions

import (
	"errors"
	"fmt"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/notify/ruleset"
	"keyfold/service/notify/simulate"

	"keyfold/engine"
	"keyfold/sink/ledger"
)

// Simulation decides past notifications anew.
type Simulation[P Program] struct {
	RuleFile `embed:""`
	Last     cli.Span `default:"7d" help:"Decide the decisions of this time before the newest one anew."`
	User     string   `help:"Only this user."`
	Sample   float64  `default:"1" help:"Share of the users, such as 0.1; the same users each time."`
}

// Help is the long text.
func (c *Simulation[P]) Help() string {
	return fmt.Sprintf(`It shows what would have changed under the candidate, from what to what and by which rule. Nothing is stored or sent,
and no lock is held. Each user's decisions are made anew in their order, with the recorded times, preferences
and cosines, from the user's state before them. Set NOTIFY_ZONE, NOTIFY_MORNING and NOTIFY_DIGEST_TIMES as
they were for the decisions: a simulation of the set that made the decisions then changes none.

Examples:
  %[1]s rules simulate rules.json
  %[1]s rules simulate rules.json --last 24h --sample 0.1
  %[1]s rules simulate rules.json --user anna -o json`, textsOf[P]().Command)
}

// config is the simulation, of a time that is known once the newest decision is.
func (c *Simulation[P]) config() simulate.Config {
	return simulate.Config{From: 1, To: 1 + engine.Millis(time.Duration(c.Last).Milliseconds()), User: c.User, Sample: c.Sample}
}

// CheckWith judges the flags, with the hours of users who have none of their own.
func (c *Simulation[P]) CheckWith(p P, hours *ruleset.Hours) error {
	config := c.config()
	_, err := hours.Local()
	return errors.Join(c.CheckFile(), config.Validate(), err, p.CheckLedger())
}

// RunWith prints what would change.
func (c *Simulation[P]) RunWith(p P, hours *ruleset.Hours) error {
	set, err := hours.Set(c.File)
	if err != nil {
		return err
	}
	return p.ReadLedger(func(l Ledger) error {
		config := c.config()
		config.Set = set
		if config.User != "" {
			if config.User, err = ledger.Person(p.Context(), l, config.User); err != nil {
				return err
			}
		}
		bar := p.Progress("decide anew", 0, nil)
		config.Done = func(n int64) { bar.At(int(n)) }
		report, err := simulate.Last(p.Context(), l, config, time.Duration(c.Last))
		bar.Done()
		if err != nil {
			return err
		}
		return p.Emit(report, report.Print)
	})
}
