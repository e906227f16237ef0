package app

import (
	"errors"

	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

// Outbox are the settings of the services on the SQL outbox.
type Outbox struct {
	AutoSetup bool `name:"auto-setup" env:"AUTO_SETUP" default:"false" help:"Set up the servers of the command at its start, as keyfold setup does." group:"servers" for:"auto-setup"`
}

// SetupBroker sets up the queues and returns what was asked for: without a number of
// partitions the broker keeps its own.
func (a *App) SetupBroker() (rabbit.Topology, error) {
	topology := rabbit.Topology{
		Names:        rabbit.DefaultNames(),
		QueueType:    a.Queues.Type,
		RetryDelays:  rabbit.RetryDelays(a.Config.Retry.Delay, a.Config.Retry.Attempts),
		Partitions:   a.Queues.Partitions,
		NoPriorities: a.Queues.NoPriorities,
	}
	if a.Queues.AsTheyAre {
		var err error
		if topology.Partitions, err = rabbit.CountPartitions(a.Ctx, a.Servers.RabbitMQ, topology.Names); err != nil {
			return topology, BrokerUnreached(err)
		}
	}
	return topology, BrokerUnreached(rabbit.Setup(a.Ctx, a.Servers.RabbitMQ, topology))
}

// SetupDatabase sets up the SQL schema of the outbox.
func (a *App) SetupDatabase(options outbox.SetupOptions) error {
	db, err := a.OpenDatabase()
	if err != nil {
		return err
	}
	return errors.Join(DatabaseUnreached(db.Setup(a.Ctx, options)), db.Close())
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
