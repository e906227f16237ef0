package app

import (
	"errors"
	"log/slog"
	"time"

	"keyfold/internal/cli"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// Outbox are the settings of the services on the SQL outbox.
type Outbox struct {
	AutoSetup    bool     `name:"auto-setup" env:"AUTO_SETUP" default:"false" help:"Set up the servers of the command at its start, as keyfold setup does." group:"servers" for:"auto-setup"`
	CleanupAfter cli.Span `name:"outbox-cleanup-after" env:"OUTBOX_CLEANUP_AFTER" default:"0s" help:"How long a published row keeps its body: 168h, 7d; 0s: the relay cleans nothing up." group:"servers" for:"cleanup"`
	CleanupEvery cli.Span `name:"outbox-cleanup-every" env:"OUTBOX_CLEANUP_EVERY" default:"1h" help:"From one cleanup of the relay to the next." group:"servers" for:"cleanup"`
	CleanupRows  int64    `name:"outbox-cleanup-rows" env:"OUTBOX_CLEANUP_ROWS" default:"100000" help:"Rows that one cleanup of the relay frees at most." group:"servers" for:"cleanup"`
}

// Cleaner is what the settings of the cleanup amount to.
func (o Outbox) Cleaner() outbox.CleanerConfig {
	return outbox.CleanerConfig{After: time.Duration(o.CleanupAfter), Every: time.Duration(o.CleanupEvery), Rows: o.CleanupRows}
}

// Check reports every fault at once.
func (o Outbox) Check() error {
	var faults []error
	if o.CleanupEvery == 0 {
		faults = append(faults, errors.New("OUTBOX_CLEANUP_EVERY is 0s: it must be above 0, such as 1h"))
	}
	if o.CleanupRows == 0 {
		faults = append(faults, errors.New("OUTBOX_CLEANUP_ROWS is 0: it must be above 0, such as 100000"))
	}
	return errors.Join(append(faults, o.Cleaner().Validate())...)
}

// SetupBroker sets up the queues and returns what was asked for: without a number of
// partitions the broker keeps its own.
func (a *App) SetupBroker() (topology.Config, error) {
	config := topology.Config{
		Names:        rabbit.DefaultNames(),
		QueueType:    a.Queues.Type,
		RetryDelays:  rabbit.RetryDelays(a.Config.Retry.Delay, a.Config.Retry.Attempts),
		Partitions:   a.Queues.Partitions,
		NoPriorities: a.Queues.NoPriorities,
		Streams:      a.Queues.Streams,
		StreamMaxAge: a.Queues.StreamMaxAge,
		Keep:         a.Queues.AsTheyAre,
	}
	err := topology.Setup(a.Ctx, a.Servers.RabbitMQ, config)
	if err == nil && config.Keep {
		config.Partitions, err = topology.CountPartitions(a.Ctx, a.Servers.RabbitMQ, config.Names)
	}
	return config, BrokerUnreached(err)
}

// SetupDatabase sets up the SQL schema of the outbox.
func (a *App) SetupDatabase(options outbox.SetupOptions) error {
	db, err := a.OpenDatabase()
	if err != nil {
		return err
	}
	options.Patience = a.SetupPatience()
	return errors.Join(DatabaseUnreached(db.Setup(a.Ctx, options)), db.Close())
}

// SetupPatience logs what a setup waits for, and lets it go on waiting for minutes.
func (a *App) SetupPatience() outbox.Patience {
	return outbox.Patience{Waiting: func(err error) {
		a.Log.Warn("user_interactions is in use: setup waits with a change of it", slog.Any("error", err),
			slog.String("hint", "let the open transaction end, or end it; the shop's statements go on meanwhile"))
	}}
}

// AutoSetup sets up what a service needs, where AUTO_SETUP says so: the SQL schema, and
// the queues of one that publishes. A service with it starts only when its servers
// answer.
func (a *App) AutoSetup(publishes bool) error {
	if !a.Outbox.AutoSetup {
		return nil
	}
	faults := []error{a.SetupDatabase(outbox.SetupOptions{})}
	if publishes {
		_, err := a.SetupBroker()
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	a.Log.Info("servers are set up")
	return nil
}
