package worker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/internal/testserver/logtest"
	"keyfold/source/rabbit"
)

// probed is a store that answers probes.
type probed struct{ hanging }

func (probed) Probe(context.Context) error { return nil }

// Each fault has one line when it begins, however long it lasts, and one when it
// ends.
//
// Promise(shutdown/one-line)
func TestOneLinePerFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logtest.Buffer
		var calls, dials atomic.Int64
		w := quiet(func(context.Context) (Store, error) {
			if calls.Add(1) < 20 {
				return nil, errors.New("store refused")
			}
			return probed{}, nil
		})
		w.ports.Log = slog.New(slog.NewTextHandler(&out, nil))
		w.ports.Broker = func(string) rabbit.Timing {
			return rabbit.Timing{Dial: func(context.Context, string, string) (net.Conn, error) {
				dials.Add(1)
				return nil, errors.New("broker refused")
			}}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		expect := func(text string, n int) {
			t.Helper()
			synctest.Wait()
			if told := out.Count(text); told != n {
				t.Errorf("%q is told %d times, want %d", text, told, n)
			}
		}
		if calls.Load() != 20 || dials.Load() < 20 {
			t.Fatalf("%d calls of the store, %d of the broker", calls.Load(), dials.Load())
		}
		expect("store refused", 1)
		expect("broker refused", 1)
		expect("retry_in=", 2)

		down := breaker.State{Open: true, Cause: errors.New("no primary")}
		w.storeChanged(down)
		w.storeChanged(down)
		expect("level=ERROR msg=\"store down", 1)
		time.Sleep(time.Minute)
		w.storeChanged(breaker.State{})
		expect("store is back: consumer resumed\" component=store away_for=1m0s", 1)
		w.storeChanged(down)
		expect("level=ERROR msg=\"store down", 2)

		fault := engine.ConfigurationError("other_model", errors.New("set EMBEDDING_MODEL"))
		for range 10 { // it is met again after each pause
			w.faultFound(fault)
			w.faultFound(fault)
			time.Sleep(faultPause + time.Second)
		}
		expect("set EMBEDDING_MODEL", 1)
		expect("the configuration fault is over", 0)
		time.Sleep(time.Hour)
		expect("the configuration fault is over: the consumer goes on\" away_for=5m9s", 1) // ten pauses, and a second between them
		w.faultFound(fault)
		expect("set EMBEDDING_MODEL", 2)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
