package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/pipeline"
	"keyfold/shard"
	sink "keyfold/sink/memory"
)

// What a pipeline does not take has a verdict all the same: its source, which
// waits for the verdicts of all it handed over, would wait for ever.
//
// Promise(shutdown/in-order)
func TestRefusedDeliveriesAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging := make(chan struct{})
		store := sickStore{Profiles: sink.New(8), load: func([]int32) error { <-hanging; return nil }}
		j := newJob(t, nil, 8)
		j.windows.Clock, j.windows.MaxHeld = shard.WallClock, 2*shard.Chunk
		ports, err := pipeline.Ports(j.laws, store, j.shop)
		must.OK(t, err)
		p, err := pipeline.New(j.windows, j.laws, ports)
		must.OK(t, err)
		v := verdicts{all: map[string][]engine.Verdict{}}
		var ds []profile.Delivery
		for i := range 3*shard.Chunk + 1 {
			ds = append(ds, v.delivery(seen(int32(i%7), fmt.Sprint("id", i))))
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- p.Deliver(ctx, ds) }()
		synctest.Wait() // it waits for room
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		v.want(t, ds[2*shard.Chunk:], engine.Unsettled)
		close(hanging)
		if err := p.Router.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		v.want(t, ds[:2*shard.Chunk], engine.ProductMissing)

		late := []profile.Delivery{v.delivery(seen(1, "late"))}
		if err := p.Deliver(t.Context(), late); !errors.Is(err, shard.ErrDraining) {
			t.Error(err)
		}
		v.want(t, late, engine.Unsettled)
	})
}

// want checks that each delivery has one verdict, and which.
func (v *verdicts) want(t *testing.T, ds []profile.Delivery, outcome engine.Outcome) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, d := range ds {
		if got := v.all[d.Event.MessageID]; len(got) != 1 || got[0].Outcome != outcome {
			t.Fatalf("%s has the verdicts %v, want %v", d.Event.MessageID, got, outcome)
		}
	}
}
