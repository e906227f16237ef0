package notifier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/shard"
)

// Notifier decides what is submitted and what is deferred.
type Notifier struct {
	Processor *processor.Processor
	Router    *shard.Router[string, processor.Delivery]
	Lag       *metric.Histogram // of deferrals, from their time to their decision
	// Leases has one of several processes sweep. It is set before Start; nil: no other
	// process shares the ledger.
	Leases notify.Leases

	config Config
	ports  processor.Ports
	log    *slog.Logger

	stop   context.CancelFunc // ends what Start began
	work   sync.WaitGroup
	paused atomic.Bool

	id       uuid.UUID     // as the holder of leases
	room     chan struct{} // wakes the poller
	gaveBack time.Time     // the poller's

	mu       sync.Mutex
	returned []uuid.UUID // claimed deferrals that were not decided
	claimed  int         // that are under way
}

// New returns a notifier over these ports. It must be stopped.
func New(config Config, ports processor.Ports) (*Notifier, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if ports.Clock == nil {
		ports.Clock = engine.Now
	}
	if ports.Log == nil {
		ports.Log = slog.New(slog.DiscardHandler)
	}
	ports.Log = ports.Log.With("component", "notify")
	n := &Notifier{
		config: config, ports: ports, log: ports.Log, stop: func() {}, room: make(chan struct{}, 1), Lag: newLag(), id: uuid.New(),
	}
	var err error
	if n.Processor, err = processor.New(config.Processor, ports); err != nil {
		return nil, err
	}
	n.Router, err = shard.New(config.Shard, shard.HashString, n.handle)
	return n, err
}

// handle is the router's handler.
func (n *Notifier) handle(ctx context.Context, batches []shard.Batch[string, processor.Delivery]) {
	all := make([]processor.Batch, len(batches))
	for i := range batches {
		all[i] = processor.Batch{User: batches[i].Key, Deliveries: batches[i].Items}
	}
	n.Processor.Apply(ctx, all)
}

// Start hands over what an earlier process decided NOW and left, then begins to
// decide deferrals as they come due. A replay decides its deferrals itself. A
// receiver that does not answer does not keep the process from starting.
func (n *Notifier) Start(ctx context.Context) error {
	if n.config.Processor.Replay {
		n.sweep(ctx, math.MaxInt64) // FinishReplay tries again
		return ctx.Err()
	}
	if !n.paused.Load() {
		first, cancel := context.WithTimeout(ctx, n.config.StartWait)
		n.sweep(first, n.sweepAtStart())
		cancel()
	}
	ctx, n.stop = context.WithCancel(context.WithoutCancel(ctx))
	n.work.Go(func() { n.poll(ctx) })
	n.work.Go(func() { n.mark(ctx) })
	n.work.Go(func() { n.sweepOften(ctx) })
	return nil
}

// sweepAtStart returns before when the decisions were made that the first sweep hands
// over: others of the same ledger are left to the processes that made them.
func (n *Notifier) sweepAtStart() engine.Millis {
	if n.Leases != nil {
		return n.ports.Clock() - engine.Millis(n.config.SweepAge.Milliseconds())
	}
	return math.MaxInt64
}

// Pause keeps deferrals from being claimed, and decisions from being marked and
// swept. What is submitted is decided.
func (n *Notifier) Pause() { n.paused.Store(true) }

// Resume ends a pause.
func (n *Notifier) Resume() { n.paused.Store(false) }

// Submit hands deliveries over, in their order per user. It blocks while there is no
// room. On an error, which comes when ctx ends or the router stops, all that were not
// taken are unsettled.
func (n *Notifier) Submit(ctx context.Context, deliveries []processor.Delivery) error {
	items := make([]shard.Item[string, processor.Delivery], 0, min(len(deliveries), shard.Chunk))
	for len(deliveries) > 0 {
		part := deliveries[:min(len(deliveries), shard.Chunk)]
		items = items[:0]
		for i := range part {
			items = append(items, shard.Item[string, processor.Delivery]{Key: part[i].User(), Value: part[i], Bytes: part[i].Bytes()})
		}
		if err := n.Router.Submit(ctx, items); err != nil {
			for i := range deliveries {
				deliveries[i].Settler.Settle(processor.Verdict{Outcome: processor.Unsettled, Err: err})
			}
			return err
		}
		deliveries = deliveries[len(part):]
	}
	return nil
}

// Decide submits events and waits for their verdicts, which are aligned with them.
// When it returns an error, some of the events may still be decided.
func (n *Notifier) Decide(ctx context.Context, events []*notify.Notification) ([]processor.Verdict, error) {
	verdicts := make([]processor.Verdict, len(events))
	deliveries := make([]processor.Delivery, len(events))
	settled := make(chan struct{}, len(events)) // a late verdict blocks no flush
	for i, e := range events {
		deliveries[i] = processor.Delivery{Event: e, Settler: processor.SettlerFunc(func(v processor.Verdict) {
			verdicts[i] = v
			settled <- struct{}{}
		})}
	}
	if err := n.Submit(ctx, deliveries); err != nil {
		return nil, err
	}
	for range events {
		select {
		case <-settled:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-n.Router.Failed():
			return nil, n.Router.Err()
		}
	}
	return verdicts, nil
}

// FinishReplay waits for what was submitted, then decides all deferrals that are
// left, and hands over what was decided NOW and not taken before. Nothing can be
// submitted any more.
func (n *Notifier) FinishReplay(ctx context.Context) error {
	if err := n.Router.Drain(ctx); err != nil {
		return err
	}
	if err := n.Processor.FinishReplay(ctx); err != nil {
		return err
	}
	_, err := n.Processor.Sweep(ctx, math.MaxInt64)
	return err
}

// Stop takes nothing more, decides what was submitted, as far as ctx allows, and
// returns leased deferrals. What is not decided comes again.
func (n *Notifier) Stop(ctx context.Context) error {
	n.stop()
	drained := n.Router.Drain(ctx)
	n.work.Wait()
	n.giveBack(ctx)
	marked := n.Processor.Mark(ctx)
	if errors.Is(marked, engine.ErrAway) { // a sweep hands over again, under the same id
		n.log.Warn("confirmed hand-overs are not marked", slog.Any("error", marked),
			slog.String("hint", "the next sweep hands them over again: receivers know a dispatch by its id"))
		marked = nil
	}
	if err := errors.Join(drained, marked); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}
