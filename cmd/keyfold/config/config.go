// Package config has the commands about the settings.
package config

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/alecthomas/kong"

	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/keyfold/reach"
	"keyfold/cmd/keyfold/status"
	"keyfold/internal/cli"
	"keyfold/internal/settings"
)

// Cmd looks at the settings.
type Cmd struct {
	Check checkCmd `cmd:"" help:"Check all settings; --connect also asks each server."`
	Show  showCmd  `cmd:"" help:"Show the settings in force, and where each is from."`
}

// checkCmd checks.
type checkCmd struct {
	API       app.APIFlags          `embed:""`
	Status    reach.StatusFlags     `embed:""`
	Dashboard status.DashboardFlags `embed:""`
	Recommend app.Recommend         `embed:""`
	Connect   bool                  `help:"Connect to each server, and fail if one cannot be used."`
}

// Help is the long text.
func (c *checkCmd) Help() string {
	return `All settings are checked, those of every command. Without --connect no server is asked. The exit
code is 2 where a setting is wrong, and 1 where a server cannot be used. DATABASE_URL, REDIS_URL and
NOTIFY_DATABASE_URL may be left out.`
}

// Check judges all settings.
func (c *checkCmd) Check(a *app.App) error {
	faults := []error{a.CheckBroker(), a.CheckStore(), a.Vectors.Usable(), c.API.Check(), c.Status.Check(), c.Dashboard.Check(c.API.Access), c.Recommend.Check(), a.CheckRules(), a.CheckTaste(), a.CheckRepeats(), a.Notify.Links.Check(), a.CheckRetention()}
	if a.Notify.Ledger != "" {
		faults = append(faults, a.CheckLedger())
	}
	if a.Notify.Owner != "" {
		faults = append(faults, a.CheckLedgerOwner())
	}
	if a.Servers.SQL != "" {
		faults = append(faults, a.CheckDatabase())
	}
	return errors.Join(faults...)
}

// Run tells that nothing was wrong, and asks the servers if told to.
func (c *checkCmd) Run(a *app.App) error {
	if !c.Connect {
		return a.Emit(map[string]bool{"valid": true}, func(w *cli.Text) {
			w.Line("The settings are valid. No server was asked; --connect asks each.")
		})
	}
	answers := reach.AskAll(a)
	err := a.Emit(map[string]any{"valid": true, "servers": answers}, func(w *cli.Text) {
		for _, s := range answers {
			s.Print(w)
		}
	})
	problems, policyErr := status.LossyPolicies(a, &c.Status)
	err = errors.Join(err, policyErr)
	for _, p := range problems {
		err = errors.Join(err, fmt.Errorf("%s: %s", p.Text, p.Cure))
	}
	failed := 0
	for _, s := range answers {
		if s.Error != "" {
			failed++
		}
	}
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%s cannot be used", cli.Count(int64(failed), "server")))
	}
	return err
}

// showCmd shows.
type showCmd struct{}

// Check leaves judging to `config check`: what is incomplete can be shown.
func (c *showCmd) Check(*app.App) error { return nil }

// Run prints the settings, with what is used in place of a value that was left open
// or lowered.
func (c *showCmd) Run(a *app.App, command *kong.Context) error {
	return a.EmitSettings(settings.List(command), map[string]string{
		"WORKER_SHARDS":   strconv.Itoa(a.Config.Shard.Shards),
		"WORKER_PREFETCH": strconv.Itoa(a.Config.Prefetch()),
		"EMBEDDING_MODEL": a.Vectors.TextModel(),
		"OPENAI_BASE_URL": settings.Redact(a.Vectors.API.BaseURL),
	})
}
