package main

import (
	"time"

	"keyfold/cmd/cli"
	"keyfold/cmd/notifier/ruleset"
	"keyfold/cmd/notifier/simulate"
	"keyfold/engine"
	"keyfold/sink/ledger"
)

// rulesSimulateCmd decides past notifications anew.
type rulesSimulateCmd struct {
	File   string        `arg:"" help:"The candidate: a set of rules, one JSON document."`
	Last   cli.Span      `default:"7d" help:"Decide the decisions of this time before the newest one anew."`
	User   string        `help:"Only this user."`
	Sample float64       `default:"1" help:"Share of the users, such as 0.1; the same users each time."`
	Local  ruleset.Hours `embed:""`
}

// Run prints what would change.
func (c *rulesSimulateCmd) Run(a *app) error {
	local, err := c.Local.Local()
	if err != nil {
		return err
	}
	set, err := ruleset.Read(c.File, local)
	if err != nil {
		return err
	}
	file, err := openDecisions(a)
	if err != nil {
		return err
	}
	defer file.Close()
	config := simulate.Config{Set: set, To: 1, User: c.User, Sample: c.Sample}
	for newest, err := range file.Records(a.ctx, ledger.Filter{Limit: 1}) {
		if err != nil {
			return err
		}
		config.To = newest.Record.DecidedAt + 1
	}
	config.From = config.To - engine.Millis(time.Duration(c.Last).Milliseconds())
	if err := config.Validate(); err != nil {
		return &cli.UsageError{Err: err}
	}
	bar := a.Progress("decide anew", 0, nil)
	config.Done = func(n int64) { bar.At(int(n)) }
	report, err := simulate.Run(a.ctx, file, config)
	bar.Done()
	if err != nil {
		return err
	}
	return a.Emit(report, report.Print)
}
