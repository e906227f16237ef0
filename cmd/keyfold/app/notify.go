package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/notify/link"
	"keyfold/service/notify/published"
	"keyfold/service/notify/ruleset"

	"keyfold/engine/causes"
	"keyfold/engine/notify"
	"keyfold/sink/ledger/postgres"
	"keyfold/source/repeat"
)

// Notify are the settings of notifications.
type Notify struct {
	Ledger       string        `name:"notify-database-url" env:"NOTIFY_DATABASE_URL" default:"" help:"PostgreSQL database of the decisions: postgres://user:password@host:5432/name (15 or later)." for:"ledger"`
	Owner        string        `name:"notify-admin-url" env:"NOTIFY_ADMIN_URL" default:"" help:"The same database for the owner of its tables, past any pooler; not set: NOTIFY_DATABASE_URL." for:"ledger-owner"`
	Rules        string        `name:"notify-rules" env:"NOTIFY_RULES" default:"" help:"File with the set of rules; not set: the published one." for:"rules"`
	AI           string        `name:"notify-ai" env:"NOTIFY_AI" default:"off" words:"on,off" help:"on: read how near each text is to the user's profile, as a part of the score." for:"taste"`
	Redis        string        `name:"notify-redis-url" env:"NOTIFY_REDIS_URL" default:"" help:"Redis memory of posted notifications: redis:// or rediss://. Not set: PostgreSQL is asked for each." for:"repeats"`
	Bloom        int           `name:"notify-bloom-capacity" env:"NOTIFY_BLOOM_CAPACITY" default:"10000000" help:"Notifications that one generation of the filter in Redis is sized for, 22.25 bits each." for:"repeats"`
	Hours        ruleset.Hours `embed:"" prefix:"notify-"`
	Links        link.Settings `embed:"" prefix:"notify-"`
	Retention    string        `name:"notify-retention" env:"NOTIFY_RETENTION" default:"90d" help:"How long decisions are kept." for:"retention"`
	KeyRetention string        `name:"notify-key-retention" env:"NOTIFY_KEY_RETENTION" default:"30d" help:"How long a notification that comes again is known by its event_id." for:"retention"`
}

var errNoLedger = errors.New("NOTIFY_DATABASE_URL is not set: set it to postgres://user:password@host:5432/name, and run `keyfold notify setup`")

const ledgerSetting = "NOTIFY_DATABASE_URL"

// CheckLedger judges NOTIFY_DATABASE_URL.
func (a *App) CheckLedger() error { return checkLedger(ledgerSetting, a.Notify.Ledger) }

// CheckLedgerOwner judges NOTIFY_ADMIN_URL, and NOTIFY_DATABASE_URL in its place.
func (a *App) CheckLedgerOwner() error {
	if a.Notify.Owner == "" {
		return a.CheckLedger()
	}
	return checkLedger("NOTIFY_ADMIN_URL", a.Notify.Owner)
}

func checkLedger(variable, url string) error {
	if url == "" {
		return errNoLedger
	}
	ledger, err := postgres.Open(url, 1)
	if err != nil {
		return fmt.Errorf("%s: %w", variable, err)
	}
	return ledger.Close()
}

// CheckRules judges the set of rules and the hours of users who have none.
func (a *App) CheckRules() error {
	_, _, err := a.RuleSets()
	return err
}

// CheckTaste judges NOTIFY_AI and what it needs.
func (a *App) CheckTaste() error {
	switch a.Notify.AI {
	case "off":
		return nil
	case "on":
		return errors.Join(a.CheckStore(), a.Vectors.Usable())
	}
	return fmt.Errorf("NOTIFY_AI is %q: it must be on or off", a.Notify.AI)
}

// Repeats returns the settings of the memory of posted notifications.
func (n *Notify) Repeats() repeat.Config {
	config := repeat.DefaultConfig()
	config.URL, config.Capacity = n.Redis, n.Bloom
	return config
}

// CheckRepeats judges NOTIFY_REDIS_URL and NOTIFY_BLOOM_CAPACITY.
func (a *App) CheckRepeats() error {
	if a.Notify.Redis == "" {
		return nil
	}
	return a.Notify.Repeats().Check()
}

// RuleSets returns the set of the file that the settings name, else the published sets,
// which follow what is published once they are loaded; live is nil for a file.
func (a *App) RuleSets() (sets notify.Sets, live *published.Sets, err error) {
	local, err := a.Notify.Hours.Local()
	if err != nil {
		return nil, nil, err
	}
	if a.Notify.Rules == "" {
		live = published.New(local, a.Log)
		return live, live, nil
	}
	set, err := ruleset.Read(a.Notify.Rules, local)
	if err != nil {
		return nil, nil, fmt.Errorf("NOTIFY_RULES: %w", err)
	}
	return ruleset.Fixed{Set: set}, nil, nil
}

// CheckRetention judges NOTIFY_RETENTION and NOTIFY_KEY_RETENTION.
func (a *App) CheckRetention() error {
	_, _, err := a.Retention()
	return err
}

// Retention returns how long decisions and event keys are kept; the error names every
// fault.
func (a *App) Retention() (decisions, keys time.Duration, err error) {
	decisions, decisionsErr := days("NOTIFY_RETENTION", a.Notify.Retention)
	keys, keysErr := days("NOTIFY_KEY_RETENTION", a.Notify.KeyRetention)
	return decisions, keys, errors.Join(decisionsErr, keysErr)
}

func days(variable, text string) (time.Duration, error) {
	var span cli.Span
	if err := span.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("%s: %w", variable, err)
	}
	if d := time.Duration(span); d >= 24*time.Hour {
		return d, nil
	}
	return 0, fmt.Errorf("%s is %q: it must be at least 1d", variable, text)
}

// WithLedger connects to the ledger and checks that it is set up.
func (a *App) WithLedger(do func(*postgres.Ledger) error) error {
	ledger, err := a.OpenLedger(a.Ctx, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(ledger), ledger.Close())
}

// WithLedgerOwner connects to the ledger as the owner of its tables, which may not be
// there yet.
func (a *App) WithLedgerOwner(do func(*postgres.Ledger) error) error {
	setting, url := "NOTIFY_ADMIN_URL", a.Notify.Owner
	if url == "" {
		setting, url = ledgerSetting, a.Notify.Ledger
	}
	ledger, err := postgres.Open(url, 0)
	if err != nil {
		return err
	}
	return errors.Join(ledgerUnreached(setting, do(ledger)), ledger.Close())
}

// OpenLedger connects to the ledger with at most so many connections (0: as many as
// the address says), and checks that it is set up.
func (a *App) OpenLedger(ctx context.Context, connections int) (*postgres.Ledger, error) {
	ledger, err := postgres.Open(a.Notify.Ledger, connections)
	if err != nil {
		return nil, err
	}
	if err := LedgerUnreached(ledger.Check(ctx)); err != nil {
		return nil, errors.Join(err, ledger.Close())
	}
	return ledger, nil
}

// LedgerUnreached gives the error of a PostgreSQL that did not answer a cure, where it has
// none.
func LedgerUnreached(err error) error { return ledgerUnreached(ledgerSetting, err) }

func ledgerUnreached(setting string, err error) error {
	return causes.Named(setting, unanswered(causes.Ledger, err))
}
