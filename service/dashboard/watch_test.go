package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
	"keyfold/service/status"
)

// One look serves all viewers: each 2 s while a page is asked for, and each 10 s from 30 s after
// the last request on.
//
// Promise(dashboard/one-look): However many watch, an installation is looked at once each 2 s, and 30 s after the last request
// once each 10 s.
func TestOneLookServesAllViewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		looks := 0
		count := func() int { mu.Lock(); defer mu.Unlock(); return looks }
		d, err := New(Config{}, Sources{Look: func(context.Context, map[string]map[string]float64) (*status.Report, error) {
			mu.Lock()
			defer mu.Unlock()
			looks++
			r := quiet(looks)
			r.At = time.Now()
			return r, nil
		}}, slog.New(slog.DiscardHandler))
		must.OK(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.Run(ctx) })
		s := guarded(t, d, onLoopback())
		within := func(span time.Duration, want int, watching bool) {
			t.Helper()
			before := count()
			for range span / time.Second {
				time.Sleep(time.Second)
				for range 8 {
					if watching {
						_, _ = get(t, s, "/")
					}
				}
			}
			synctest.Wait()
			if got := count() - before; got < want-1 || got > want+1 {
				t.Errorf("%v, watched: %t: %d looks, want %d", span, watching, got, want)
			}
		}
		within(time.Minute, 6, false)
		within(time.Minute, 30, true)
		within(30*time.Second, 15, false)
		within(time.Minute, 6, false)
		stop()
		running.Wait()
	})
}

// The first page waits a moment for the first look, and not for longer.
func TestTheFirstPageWaitsAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := New(Config{}, Sources{Look: func(ctx context.Context, _ map[string]map[string]float64) (*status.Report, error) {
			select {
			case <-time.After(time.Minute):
				return quiet(0), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}, slog.New(slog.DiscardHandler))
		must.OK(t, err)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { d.Run(ctx) })
		began := time.Now()
		_, page := get(t, guarded(t, d, onLoopback()), "/")
		if waited := time.Since(began); waited != firstLook || !strings.Contains(page, errFirstLook.Error()) {
			t.Errorf("after %v: %s", waited, page)
		}
		stop()
		running.Wait()
	})
}

// A look that finds nothing is told once in the log, and its end once.
func TestAFailingLookIsLoggedOnce(t *testing.T) {
	var log logtest.Buffer
	d, err := New(Config{}, Sources{}, slog.New(slog.NewTextHandler(&log, nil)))
	must.OK(t, err)
	for range 5 {
		d.watch.take(noon, nil, errors.New("away"))
	}
	d.watch.take(noon, quiet(0), nil)
	if text := log.String(); strings.Count(text, "level=WARN") != 1 || strings.Count(text, "hint=") != 1 || strings.Count(text, "is seen again") != 1 {
		t.Errorf("logged %s", text)
	}
}

// A problem is known from one look to the next though its figures change, and is new after it was gone.
func TestSinceWhenAProblemIsThere(t *testing.T) {
	d := shownAs(t, Config{}, Sources{}, nil)
	look := func(second int, text string) string {
		r := quiet(90)
		r.At = noon.Add(time.Duration(second) * time.Second)
		if text != "" {
			r.Problems = []status.Problem{{About: "queues", Text: text}}
		}
		d.watch.take(r.At, r, nil)
		if found := problemsOf(d.watch.last.Load(), d.manual, 9).All; len(found) > 0 {
			return found[0].For
		}
		return "none"
	}
	for i, c := range []struct {
		second     int
		text, want string
	}{{0, "7,210 messages", ""}, {70, "7,300 messages", "1m"}, {150, "9 messages", "2m"}, {160, "", "none"}, {170, "7,210 messages", ""}, {180, "another thing", ""}} {
		if got := look(c.second, c.text); got != c.want {
			t.Errorf("%d: for %q, want %q", i, got, c.want)
		}
	}
}

// reportOf has workers with the figures, by address.
func reportOf(tick int, figures map[string]map[string]float64) *status.Report {
	r := &status.Report{At: noon.Add(time.Duration(tick) * sampleEvery)}
	for address, f := range figures {
		r.Processes = append(r.Processes, status.Process{Address: address, Figures: f})
	}
	return r
}

func counted(n float64) map[string]float64 {
	return map[string]float64{writes: n / 2, "keyfold_rabbitmq_delivered_total": n, `keyfold_events_total{outcome="folded"}`: n, `keyfold_events_total{outcome="folded",queue="x"}`: 0}
}

// A process that began anew counts from its start on: no rate is negative, and none has what the
// process before it did. One that is not seen for a while is not a burst when it is seen again.
//
// Promise(dashboard/rates): After a restart of a process the rate is that of the new process from its start on: never
// negative, never a burst; the plot marks it.
func TestRatesAcrossARestart(t *testing.T) {
	var g ring
	rates := func(tick int, figures map[string]map[string]float64) float64 {
		r := reportOf(tick, figures)
		g.add(r.At, r)
		return rateIn(g.samples[len(g.samples)-1])
	}
	for i, c := range []struct {
		a, b float64 // counters of two workers; -1: no answer
		want float64 // events a second; -1: not known
		mark bool
	}{
		{1000, 5000, -1, false},
		{2000, 6000, 200, false},
		{50, 7000, 105, true}, // a began anew, 50 events ago
		{1050, -1, 100, false},
		{2050, -1, 100, false},
		{3050, 10000, 200, false}, // b goes on: 3,000 events in 30 s
		{3050, 10000, 0, false},
	} {
		figures := map[string]map[string]float64{}
		for address, n := range map[string]float64{"a": c.a, "b": c.b} {
			if n >= 0 {
				figures[address] = counted(n)
			}
		}
		got := rates(i, figures)
		if marked := g.samples[len(g.samples)-1].Restarted; c.want < 0 != math.IsNaN(got) || c.want >= 0 && math.Abs(got-c.want) > 1e-9 || marked != c.mark {
			t.Errorf("sample %d: %v events/s, want %v; marked: %t", i, got, c.want, marked)
		}
	}
	all := sum(g.samples)
	if all.Seconds != 60 || all.saved() != 0.5 {
		t.Errorf("in all %v s, %v saved", all.Seconds, all.saved())
	}
}

// The ring holds 15 minutes, whatever is added to it.
func TestTheRingIsBounded(t *testing.T) {
	var g ring
	for tick := range 1000 {
		r := quiet(tick)
		if tick%100 > 90 {
			r = nil // a look that found nothing leaves a gap
		}
		g.add(noon.Add(time.Duration(tick)*sampleEvery), r)
		g.add(noon.Add(time.Duration(tick)*sampleEvery+lookEvery), r) // too soon
	}
	if n := len(g.samples); n != int(shown/sampleEvery)+1 || len(g.minute) != 6 || len(g.known) > 4 {
		t.Errorf("%d samples, %d looks of the last minute, %d processes", n, len(g.minute), len(g.known))
	}
	gaps := 0
	for _, s := range g.samples {
		if math.IsNaN(s.In) {
			gaps++
		}
		if s.In < 0 || s.Folded < 0 || s.Writes < 0 {
			t.Errorf("negative: %+v", s)
		}
	}
	if gaps == 0 {
		t.Error("looks that found nothing left no gap")
	}
}
