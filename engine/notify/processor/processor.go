package processor

import (
	"context"
	"log/slog"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/rounds"
)

// Ports are what the processor reads from and writes to.
type Ports struct {
	Ledger     notify.Ledger
	Dispatcher notify.Dispatcher
	Sets       notify.Sets
	Scores     notify.Scores        // nil: no event has a taste term
	Shadows    notify.Shadows       // nil: nothing is decided a second time
	Clock      func() engine.Millis // nil: the process's
	// WaitForLedger returns when the ledger may be asked, and whether it was known to
	// be away before; an error ends the wait, and what waits is left unsettled. nil:
	// a ledger that fails is asked again, at most [Config.Failures] times.
	WaitForLedger func(context.Context) (waited bool, err error)
	// OnConfigError hears of configuration faults of the ledger and the dispatcher:
	// no delivery caused them. It may be called often. nil: they stand in verdicts.
	OnConfigError func(error)
	Log           *slog.Logger // nil: nothing is logged
}

// Processor decides deliveries. It is safe for concurrent use, as long as no user
// is in two calls of Apply at once.
type Processor struct {
	config Config
	ports  Ports
	policy rounds.Policy
	stats  Stats
	marks  marks
	rests  rests
}

// New returns a processor over these ports.
func New(config Config, ports Ports) (*Processor, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if ports.Clock == nil {
		ports.Clock = engine.Now
	}
	if ports.WaitForLedger == nil {
		ports.WaitForLedger = func(context.Context) (bool, error) { return false, nil }
	}
	if ports.OnConfigError == nil {
		ports.OnConfigError = func(error) {}
	}
	if ports.Log == nil {
		ports.Log = slog.New(slog.DiscardHandler)
	}
	ports.Log = ports.Log.With("component", "notify")
	p := &Processor{config: config, ports: ports, policy: rounds.Policy{
		Conflicts: config.Conflicts, Failures: config.Failures, Pause: config.Pause, MaxPause: config.MaxPause,
	}}
	p.stats.init()
	return p, nil
}

// Stats returns the counters.
func (p *Processor) Stats() *Stats { return &p.stats }

// Apply decides the batches, whose users differ, and settles every delivery exactly
// once before it returns. When ctx ends, what is not decided yet is left unsettled.
func (p *Processor) Apply(ctx context.Context, batches []Batch) {
	f := &flush{Processor: p, ctx: ctx, set: p.ports.Sets.Current(), now: p.ports.Clock()}
	for i := range batches {
		b := &batches[i]
		for j := range b.Deliveries {
			if d := &b.Deliveries[j]; d.At == 0 {
				d.At, d.live = f.now, true
			}
		}
		if !p.config.Replay { // a replay's order is that of the file, whatever the grouping
			sortDeliveries(b.Deliveries)
		}
		f.works = append(f.works, &work{user: b.User, deliveries: b.Deliveries})
	}
	p.stats.Flushes.Add(1)
	began := time.Now()
	f.run()
	p.stats.FlushTime.Observe(time.Since(began))
}
