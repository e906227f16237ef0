package worker

import (
	"context"
	"fmt"
	"time"

	"keyfold/engine"
	"keyfold/engine/backoff"
)

const (
	// checkInterval is the time between two looks at the schema and the clocks.
	checkInterval = 10 * time.Second
	// maxApart is how far the clocks of the worker and of the database may differ.
	maxApart = 2 * time.Second
)

// ReasonClocksApart is the reason of a worker that does not consume because its clock
// and the database's differ.
const ReasonClocksApart = "clocks_apart"

// checkOften looks at the schema and the clocks until ctx ends.
func (w *Worker) checkOften(ctx context.Context) {
	for backoff.Sleep(ctx, checkInterval) {
		w.check(ctx)
	}
}

// check pauses the worker while the schema cannot be used or the clocks differ. A
// ledger that does not answer says nothing about either.
func (w *Worker) check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkInterval)
	defer cancel()
	err := w.ledger.Check(ctx)
	if err == nil {
		err = w.compareClocks(ctx)
	}
	if err == nil || engine.KindOf(err) == engine.Configuration {
		w.control.Unfit(err)
	}
}

// compareClocks returns a configuration error where the clocks differ by more than
// maxApart, the time of the call not counted.
func (w *Worker) compareClocks(ctx context.Context) error {
	before := w.ports.Now()
	server, err := w.ledger.Clock(ctx)
	after := w.ports.Now()
	if err != nil {
		return err
	}
	apart := max(before-server, server-after)
	if apart <= engine.Millis(maxApart.Milliseconds()) {
		return nil
	}
	return engine.ConfigurationError(ReasonClocksApart, fmt.Errorf(
		"the clocks of this machine and of the database are %v apart, at most %v are allowed: set both by NTP (timedatectl shows the state); nothing is decided until then",
		time.Duration(apart)*time.Millisecond, maxApart))
}
