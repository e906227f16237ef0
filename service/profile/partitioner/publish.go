package partitioner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/engine/cure"
	"keyfold/engine/failpoint"
	"keyfold/engine/terse"
	"keyfold/source/rabbit"
)

// setupCommand declares what the stage needs.
const setupCommand cure.Name = "rabbit.SetupPartitions"

// ReasonNoPartition is the reason of a configuration error: no queue takes the events of
// a slot.
const ReasonNoPartition = "no_partition"

// publish publishes copies and waits for their confirms. The answer is aligned with them.
func (p *Partitioner) publish(ctx context.Context, all []pending) []error {
	messages := make([]rabbit.Message, len(all))
	for i := range all {
		messages[i] = all[i].copy
	}
	if err := failpoint.Hit(failpoint.BeforePartition); err != nil {
		return slices.Repeat([]error{err}, len(all))
	}
	ctx, cancel := bounded(ctx, p.config.PublishTimeout)
	defer cancel()
	errs := p.send(ctx, messages)
	lost := failpoint.Hit(failpoint.PartitionConfirmed)
	noExchange := slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, rabbit.ErrNoExchange) })
	for i, err := range errs {
		if err == nil && lost != nil {
			err = fmt.Errorf("%w: %w", engine.ErrUnknown, lost)
		}
		p.Stats.count(err)
		errs[i] = named(err, &messages[i], noExchange)
	}
	p.Stats.Batches.Add(1)
	return errs
}

// named returns the configuration error of what setup has not declared, and other errors
// as they are.
func named(err error, m *rabbit.Message, noExchange bool) error {
	switch {
	case errors.Is(err, engine.ErrUnroutable):
		return engine.ConfigurationError(ReasonNoPartition,
			fmt.Errorf("rabbitmq: no partition takes the events of slot %s from exchange %q: run %s", m.RoutingKey, m.Exchange, setupCommand))
	case err != nil && noExchange:
		return engine.ConfigurationError(ReasonNoPartition,
			fmt.Errorf("rabbitmq: there is no exchange %q: run %s", m.Exchange, setupCommand))
	}
	return err
}

// failed notes that copies were not published, and returns the wait before they are
// published again.
func (p *Partitioner) failed(ctx context.Context, errs []error, wait time.Duration) time.Duration {
	if ctx.Err() != nil {
		return 0
	}
	failures := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	cause := failures[0]
	for _, err := range failures {
		if engine.KindOf(err) == engine.Configuration {
			cause = err
			break
		}
	}
	p.outage.begins(p.log, cause, len(failures), wait)
	return wait
}

// outage is what keeps copies from being published.
type outage struct {
	told terse.Fault

	mu    sync.Mutex
	cause error // nil: there is none
}

func (o *outage) begins(log *slog.Logger, cause error, messages int, wait time.Duration) {
	o.mu.Lock()
	o.cause = cause
	o.mu.Unlock()
	if o.told.Begins(cause) {
		log.Error("events not published to their partitions: they stay in their queue, and no attempt is used",
			slog.Int("messages", messages), slog.Duration("retry_in", wait), slog.String("kind", engine.KindOf(cause).String()), slog.Any("error", cause),
			slog.String("hint", causes.Hint(cause, "they are published again by themselves")))
	}
}

func (o *outage) ends(log *slog.Logger) {
	o.mu.Lock()
	o.cause = nil
	o.mu.Unlock()
	if lasted, was := o.told.Ends(); was {
		log.Info("events are published to their partitions again", slog.Duration("away_for", lasted))
	}
}

func (o *outage) fault() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cause
}
