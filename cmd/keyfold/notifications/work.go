package notifications

import (
	"context"
	"errors"
	"log/slog"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/settings"
	"keyfold/service/notify/published"
	"keyfold/service/notify/worker"
	"keyfold/sink/senders/message"
	"keyfold/source/rabbit/consume"
)

// workCmd is the daemon.
type workCmd struct{}

// Service marks a command that runs until it is told to stop.
func (c *workCmd) Service() {}

// Help is the long text.
func (c *workCmd) Help() string {
	return `Events come from the queues notification_events_urgent and notification_events, which ` + "`keyfold notify setup`" + ` makes.
Each is decided NOW, LATER or NEVER, the decision is stored in PostgreSQL, and a NOW is published for the senders,
before the event is acknowledged. What is LATER is decided again in time. Several workers may run side by side.
Workers decide by the set of rules that is published (` + "`keyfold notify rules`" + `), and take another one over within seconds.
With NOTIFY_RULES they decide by that file.

Example:
  NOTIFY_DATABASE_URL=postgres://user:password@127.0.0.1:5432/keyfold keyfold notify work`
}

func (c *workCmd) Check(a *app.App) error {
	return errors.Join(a.CheckBroker(), a.CheckLedger(), a.CheckRules(), a.CheckTaste(), a.Notify.Links.Check())
}

// Run starts the admin endpoint, which answers also while the ledger is away, and
// works until the program is told to stop.
func (c *workCmd) Run(a *app.App) error {
	a.LogStart("notify work")
	sets, live, err := a.RuleSets()
	if err != nil {
		return err
	}
	links, err := linksOf(a, sets)
	if err != nil {
		return err
	}
	return withTaste(a, func(t *taste) error {
		ports := workerPorts(a, sets, live)
		ports.Links = links
		if t != nil {
			ports.Scores = t.scores
		}
		w := working{worker.New(workerConfig(a), ports), t, live}
		return a.WithAdmin(w, func() error { return w.Run(a.Ctx) })
	})
}

func workerConfig(a *app.App) worker.Config {
	c := worker.Size(a.Config)
	c.DSN, c.Identity, c.QueueType = a.Servers.RabbitMQ, a.Identity("notify worker"), a.Queues.TypeOfOne()
	c.About = []slog.Attr{slog.String("ledger", settings.Redact(a.Notify.Ledger)), slog.String("taste", a.Notify.AI)}
	return c
}

// connections is how many connections a worker takes: one per flush under way, and
// those of the poller, the sweep, the reports and the checks.
func connections(c worker.Config) int { return c.Notifier.Shard.Flushes + 4 }

// workerPorts connects a worker. It does not start without a set of rules.
func workerPorts(a *app.App, sets notify.Sets, live *published.Sets) worker.Ports {
	ports := worker.Ports{
		OpenLedger: func(ctx context.Context) (worker.Ledger, error) {
			ledger, err := a.OpenLedger(ctx, connections(worker.Size(a.Config)))
			if err == nil && live != nil {
				if err = live.Load(ctx, ledger); err != nil {
					err = errors.Join(err, ledger.Close())
				}
			}
			return opened(ledger, err)
		},
		Sets:  sets,
		Log:   a.Log,
		Clock: a.Clock,
	}
	if live != nil {
		ports.Follow, ports.Shadows = live.Follow, live
	}
	return ports
}

// linksOf returns what makes the links of messages, nil where the settings name none.
func linksOf(a *app.App, sets notify.Sets) (message.Linker, error) {
	links, err := a.Notify.Links.Links(sets)
	if links == nil {
		return nil, err // a nil pointer in the interface would be asked
	}
	return links, nil
}

// opened returns nil with an error: a nil pointer in the interface would be closed.
func opened[L worker.Ledger](ledger L, err error) (worker.Ledger, error) {
	if err != nil {
		return nil, err
	}
	return ledger, nil
}

// working is a running daemon as the admin endpoint sees it.
type working struct {
	*worker.Worker
	taste *taste          // nil: it is off
	rules *published.Sets // nil: they are of a file
}

// Register implements [app.Service].
func (w working) Register(set *metric.Set) {
	w.Worker.Register(set)
	if w.taste != nil {
		w.taste.register(set)
	}
	if w.rules != nil {
		w.rules.Register(set)
	}
}

// Notes implements [app.Service].
func (w working) Notes() []string {
	notes := w.Worker.Notes()
	if w.taste != nil {
		notes = append(notes, w.taste.notes()...)
	}
	if w.rules != nil {
		notes = append(notes, w.rules.Notes()...)
	}
	return notes
}

// Figures implements [app.Service].
func (w working) Figures() []app.Figure {
	s := w.Stats()
	if s == nil {
		return nil
	}
	sum := func(of func(*consume.Stats) int64) func() int64 {
		return func() (n int64) {
			for _, c := range s.Consumers {
				n += of(c)
			}
			return n
		}
	}
	outcome := func(o notify.Outcome) func() int64 {
		return func() int64 { return s.Processor.Decisions.Of(o) }
	}
	return []app.Figure{
		{Name: "messages", Read: sum(func(c *consume.Stats) int64 { return c.Delivered.Load() })},
		{Name: "now", Read: outcome(notify.Now)},
		{Name: "later", Read: outcome(notify.Later)},
		{Name: "never", Read: outcome(notify.Never)},
		{Name: "known", Read: func() int64 { return s.Processor.Of(processor.Known) }},
		{Name: "dispatched", Read: s.Processor.Dispatched.Load},
		{Name: "dead", Read: sum(func(c *consume.Stats) int64 { return c.DeadLetters.Load() })},
		{Name: "retried", Read: sum(func(c *consume.Stats) int64 { return c.Retried.Load() })},
		{Name: "parked", Read: sum(func(c *consume.Stats) int64 { return c.Parked.Load() })},
		{Name: "conflicts", Read: s.Processor.Conflicts.Load},
		{Name: "ledger_failures", Read: s.Processor.Failures.Load},
		{Name: "waiting", Gauge: true, Read: sum(func(c *consume.Stats) int64 { return c.Unacked.Load() })},
	}
}
