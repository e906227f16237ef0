package notifications

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/service/notify/broker"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/rule"
	"keyfold/sink/ledger/postgres"
	"keyfold/sink/ledger/sqlite"
	"keyfold/source/rabbit"
)

// setupCmd creates the queues and the tables.
type setupCmd struct {
	Print string `placeholder:"DATABASE" help:"Print the SQL for postgres or sqlite and change nothing."`
}

// Help is the long text.
func (c *setupCmd) Help() string {
	return `Both servers are set up, also where one failed: one call names every fault, and the same command
goes on once they are cured. -o json prints one object; what was not set up is null there. The
tables belong to the role of NOTIFY_ADMIN_URL. The partitions of today and of the next days are
made too; ` + "`keyfold notify retention`" + `, run once a day, makes those that follow. Where no set of
rules is published, the shipped one is. Another WORKER_RETRY_DELAY or WORKER_MAX_RETRIES adds retry queues; the old ones stay.

Examples:
  keyfold notify setup
  NOTIFY_DATABASE_URL=postgres://user:password@127.0.0.1:5432/keyfold keyfold notify setup
  keyfold notify setup --print postgres`
}

func (c *setupCmd) Check(a *app.App) error {
	if c.Print != "" {
		_, err := c.sql()
		return err
	}
	return errors.Join(a.CheckBroker(), a.CheckLedgerOwner())
}

func (c *setupCmd) sql() (string, error) {
	switch c.Print {
	case "postgres":
		return postgres.SQL(), nil
	case "sqlite":
		return sqlite.SQL(), nil
	}
	return "", fmt.Errorf("--print is %q: it must be postgres or sqlite", c.Print)
}

// setUp is what is there now; nil where it could not be set up.
type setUp struct {
	RabbitMQ   *queuesSetUp `json:"rabbitmq"`
	PostgreSQL *tablesSetUp `json:"postgresql"`
}

type queuesSetUp struct {
	Exchanges   []string `json:"exchanges"`
	Queues      []string `json:"queues"`
	Dispatches  []string `json:"dispatch_queues"`
	DeadLetters []string `json:"dead_letter_queues"`
	Retries     []string `json:"retry_queues"`
}

type tablesSetUp struct {
	Tables  []string `json:"tables"`
	RuleSet int64    `json:"rule_set"`           // in force
	First   bool     `json:"rule_set_published"` // it is the shipped one, from now on
	Made    int      `json:"partitions_made"`
	Ahead   int      `json:"days_ahead"` // that have a partition, after today
}

// Run sets up both servers, the second one also where the first failed, so that one
// call names every fault.
func (c *setupCmd) Run(a *app.App) error {
	if c.Print != "" {
		text, err := c.sql()
		if err != nil {
			return err
		}
		return a.Emit(map[string]string{"sql": text}, func(w *cli.Text) { _, w.Err = io.WriteString(w.W, text) })
	}
	var done setUp
	var faults [2]error
	done.RabbitMQ, faults[0] = setUpQueues(a)
	done.PostgreSQL, faults[1] = setUpTables(a)
	return errors.Join(append(faults[:], a.Emit(&done, done.print))...)
}

func (s *setUp) print(w *cli.Text) {
	if q := s.RabbitMQ; q != nil {
		w.Line("RabbitMQ: exchanges %s", strings.Join(q.Exchanges, ", "))
		w.Line("RabbitMQ: queues %s; dead letters %s", strings.Join(q.Queues, ", "), strings.Join(q.DeadLetters, ", "))
		w.Line("RabbitMQ: queues for the senders %s", strings.Join(q.Dispatches, ", "))
		w.Line("RabbitMQ: retry queues %s; those of an earlier WORKER_RETRY_DELAY stay, and their messages come back",
			strings.Join(q.Retries, ", "))
	}
	if t := s.PostgreSQL; t != nil {
		w.Line("PostgreSQL: tables %s", strings.Join(t.Tables, ", "))
		if t.First {
			w.Line("PostgreSQL: the shipped set of rules is published as the set %d", t.RuleSet)
		} else {
			w.Line("PostgreSQL: the set of rules %d is in force", t.RuleSet)
		}
		w.Line("PostgreSQL: %s made; there is one for each day up to %s ahead", cli.Count(int64(t.Made), "partition"), cli.Count(int64(t.Ahead), "day"))
	}
}

func setUpQueues(a *app.App) (*queuesSetUp, error) {
	t := broker.Topology{
		QueueType:   a.Queues.TypeOfOne(),
		RetryDelays: rabbit.RetryDelays(a.Config.Retry.Delay, a.Config.Retry.Attempts),
	}
	if err := broker.Setup(a.Ctx, a.Servers.RabbitMQ, t); err != nil {
		return nil, app.BrokerUnreached(err)
	}
	done := &queuesSetUp{
		Exchanges:   []string{broker.EventsExchange, broker.DispatchExchange, broker.DeliveryExchange},
		DeadLetters: []string{broker.Bulk().DeadLetters, broker.Deliveries().DeadLetters},
	}
	for _, names := range broker.Inputs() {
		done.Queues = append(done.Queues, names.Queue)
		for _, delay := range t.RetryDelays {
			done.Retries = append(done.Retries, names.RetryQueue(delay))
		}
	}
	for _, channel := range notify.Channels {
		done.Dispatches = append(done.Dispatches, broker.DispatchQueue(channel))
	}
	return done, nil
}

func setUpTables(a *app.App) (*tablesSetUp, error) {
	done := &tablesSetUp{
		Tables: []string{"notify_users", "notify_preferences", "notify_aliases", "notify_event_keys", "notify_decisions", "notify_deferrals", "notify_rule_sets", "notify_rules"},
		Ahead:  postgres.DefaultRetention().Ahead,
	}
	err := a.WithLedgerOwner(func(ledger *postgres.Ledger) (err error) {
		if err := ledger.Setup(a.Ctx); err != nil {
			return err
		}
		if done.Made, err = ledger.EnsurePartitions(a.Ctx, engine.Now(), done.Ahead+1); err != nil {
			return err
		}
		done.RuleSet, done.First, err = publishFirst(a, ledger)
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// publishFirst publishes the shipped set where none is published, and returns the number
// of the set in force.
func publishFirst(a *app.App, ledger *postgres.Ledger) (version int64, published bool, err error) {
	version, err = ledger.Publish(a.Ctx, postgres.Publication{Document: rule.Default(), By: "keyfold notify setup", Note: "the shipped set"})
	if other, ok := errors.AsType[*postgres.NotActiveError](err); ok {
		return other.Active, false, nil
	}
	return version, err == nil, err
}
