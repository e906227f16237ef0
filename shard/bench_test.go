//go:build unix

package shard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// payload is about what a decoded event weighs, with a pointer for the collector
// to follow.
type payload struct {
	text string
	_    [8]uint64
}

const benchKeys = 20_000

// benchItems returns a long run of items over benchKeys keys, a few of them busy
// as users are (Zipf).
func benchItems() []Item[int32, payload] {
	source := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(source, 1.1, 20, benchKeys-1)
	items := make([]Item[int32, payload], 1<<17)
	for i := range items {
		items[i] = Item[int32, payload]{
			Key: int32(zipf.Uint64()), Bytes: 256, Value: payload{text: "event"},
			At: time.Unix(0, int64(i)*int64(100*time.Microsecond)),
		}
	}
	return items
}

// BenchmarkRouter is the way from Submit to a handler that does nothing. Run it
// with -cpu 1 for the rate per
// core; on a shared machine cpu-ns/item is the figure to read.
func BenchmarkRouter(b *testing.B) {
	items := benchItems()
	for _, tt := range []struct {
		name   string
		chunk  int
		change func(*Config)
	}{
		{"wide/chunk=256", 256, func(c *Config) { c.MaxHeld = 1 << 18 }},
		{"wide/chunk=16", 16, func(c *Config) { c.MaxHeld = 1 << 18 }},
		{"wide/chunk=1", 1, func(c *Config) { c.MaxHeld = 1 << 18 }},
		{"default/chunk=256", 256, func(*Config) {}}, // pressure closes the windows
		{"unbatched/chunk=256", 256, func(c *Config) { c.Batching = false }},
		{"event clock/chunk=256", 256, func(c *Config) { c.MaxHeld, c.Clock = 1<<18, EventClock }},
	} {
		b.Run(tt.name, func(b *testing.B) {
			config := DefaultConfig()
			config.Window, config.MaxDelay = 20*time.Millisecond, 60*time.Millisecond
			tt.change(&config)
			benchRouter(b, config, items, tt.chunk)
		})
	}
}

func benchRouter(b *testing.B, config Config, items []Item[int32, payload], chunk int) {
	router, err := New(config, HashInt32, func(context.Context, []Batch[int32, payload]) {})
	must.OK(b, err)
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime()
	for at := 0; at < b.N; at += chunk {
		from := at % len(items)
		n := min(chunk, b.N-at)
		must.OK(b, router.Submit(b.Context(), items[from:from+n]))
	}
	must.OK(b, router.Drain(b.Context()))
	b.StopTimer()
	s := router.Stats()
	cpu = cpuTime() - cpu
	b.ReportMetric(float64(cpu)/float64(s.Items), "cpu-ns/item")
	b.ReportMetric(float64(s.Items)/b.Elapsed().Seconds()/1e6, "Mitems/s")
	b.ReportMetric(float64(s.Items)/float64(s.Batches), "items/batch")
	b.ReportMetric(s.KeysPerFlush(), "keys/flush")
}

// cpuTime is what the process has used of all cores: the figure that counts on a
// machine that has other work.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkRecycler is what the free lists are for: windows that grow to size
// items and go.
func BenchmarkRecycler(b *testing.B) {
	for _, size := range []int{1, 4, 50, 500} {
		b.Run(fmt.Sprintf("recycled/size=%d", size), func(b *testing.B) {
			r := slicePool[payload]{limit: 4096}
			b.ReportAllocs()
			for b.Loop() {
				var s []payload
				for range size {
					s = r.append(s, payload{})
				}
				r.put(s)
			}
		})
		b.Run(fmt.Sprintf("fresh/size=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var s []payload
				for range size {
					s = append(s, payload{})
				}
				runtime.KeepAlive(&s)
			}
		})
	}
}

// BenchmarkOpenWindows is the memory of a window beside its items: B/window.
func BenchmarkOpenWindows(b *testing.B) {
	const windows = 100_000
	for b.Loop() {
		before := liveHeap()
		config := DefaultConfig()
		config.Window, config.MaxDelay, config.MaxHeld, config.Clock = MaxSpan, MaxSpan, 1<<20, EventClock
		router, err := New(config, HashInt32, func(context.Context, []Batch[int32, int64]) {})
		must.OK(b, err)
		for i := range int32(windows) {
			must.OK(b, router.Submit(b.Context(), []Item[int32, int64]{{Key: i, Value: 1}}))
		}
		for router.Stats().OpenWindows < windows {
			time.Sleep(time.Millisecond)
		}
		b.ReportMetric(float64(liveHeap()-before)/windows, "B/window")
		must.OK(b, router.Drain(b.Context()))
	}
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
