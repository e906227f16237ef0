package shard

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// Clock says what time windows run on.
type Clock uint8

const (
	// WallClock is the process's monotonic clock.
	WallClock Clock = iota
	// EventClock is driven by Item.At, for replays.
	EventClock
)

// Config sizes a router.
type Config struct {
	Shards   int           // actors, each with its own keys
	Window   time.Duration // closes a key's window after its last item; restarts with each
	MaxDelay time.Duration // closes it after its first item, however busy the key
	MaxSize  int           // items of one batch
	Batching bool          // false: an item is flushed as soon as its key is free
	// Early is how much too early a window may close, together with one that is due, so that
	// they share a flush. Only used on the wall clock.
	Early time.Duration

	MaxHeld      int   // items held over all shards, from Submit to the handler's return
	MaxHeldBytes int64 // the same in Item.Bytes
	// Room tells how many more items the source may bring while those that it has brought are
	// held; false: any number. Windows never wait for more than that. nil: any number. It is
	// called often, by several goroutines.
	Room func() (items int, ok bool)

	Flushes    int // handlers running at once, over all shards
	FlushKeys  int // keys of one flush
	FlushItems int // items of one flush; a single larger window still goes, alone
	Clock      Clock
}

// DefaultConfig returns the settings of a worker that was told nothing: one
// shard per processor, 5 s windows of at most 15 s and 500 items, 4,096 items or
// 256 MiB held, and two flushes per shard, so that one is prepared while the
// other is on its way.
func DefaultConfig() Config {
	shards := runtime.GOMAXPROCS(0)
	return Config{
		Shards:       shards,
		Window:       5 * time.Second,
		MaxDelay:     15 * time.Second,
		MaxSize:      500,
		Batching:     true,
		MaxHeld:      4096,
		MaxHeldBytes: 256 << 20,
		Flushes:      2 * shards,
		FlushKeys:    256,
		FlushItems:   2048,
	}
}

// Bounds of a configuration.
const (
	MaxShards = 1024
	// MaxSpan bounds Window and MaxDelay: no window outlives it.
	MaxSpan = 24 * time.Hour
)

// Validate reports every fault at once, by the names of the fields.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	positive := func(name string, n int64) {
		if n < 1 {
			fault("%s is %d: it must be at least 1", name, n)
		}
	}

	if c.Shards < 1 || c.Shards > MaxShards {
		fault("Shards is %d: it must be between 1 and %d (usually the number of processors)", c.Shards, MaxShards)
	}
	if c.Batching {
		faults = append(faults, c.spanFaults()...)
	}
	positive("MaxSize", int64(c.MaxSize))
	positive("MaxHeld", int64(c.MaxHeld))
	positive("MaxHeldBytes", c.MaxHeldBytes)
	positive("Flushes", int64(c.Flushes))
	positive("FlushKeys", int64(c.FlushKeys))
	positive("FlushItems", int64(c.FlushItems))
	if c.Clock > EventClock {
		fault("Clock is %d: it must be WallClock or EventClock", c.Clock)
	}
	return errors.Join(faults...)
}

// spanFaults checks what only matters while windows are kept open.
func (c Config) spanFaults() []error {
	var faults []error
	if c.Window <= 0 || c.Window > MaxSpan {
		faults = append(faults, fmt.Errorf("%s is %v: it must be above 0 and at most %v "+
			"(to flush each item at once, set Batching to false)", "Window", c.Window, MaxSpan))
	}
	if c.MaxDelay < c.Window || c.MaxDelay > MaxSpan {
		faults = append(faults, fmt.Errorf("MaxDelay is %v: it must be at least Window (%v) and at most %v",
			c.MaxDelay, c.Window, MaxSpan))
	}
	if c.Early < 0 || c.Early >= c.Window {
		faults = append(faults, fmt.Errorf("the early close is %v: it must be at least 0, and below Window (%v)", c.Early, c.Window))
	}
	return faults
}

// held returns the limits of the held budget.
func (c Config) held() usage { return usage{items: int64(c.MaxHeld), bytes: c.MaxHeldBytes} }

// maxFlushesPerShard is how many flushes one shard may have running: its even share and
// one more. The one more lets a busy shard use what the quiet ones leave; more
// than that would let a shard with slow keys take every token.
func (c Config) maxFlushesPerShard() int {
	return min(c.Flushes, (c.Flushes+c.Shards-1)/c.Shards+1)
}
