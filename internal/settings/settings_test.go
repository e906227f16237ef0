package settings

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/shard"
)

func parse(t *testing.T, env map[string]string, args ...string) Engine {
	t.Helper()
	for k, v := range env {
		t.Setenv(k, v)
	}
	var s Engine
	p, err := kong.New(&s, kong.Name("test"))
	must.OK(t, err)
	if _, err := p.Parse(args); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDefaults(t *testing.T) {
	c, err := parse(t, nil).Config()
	must.OK(t, err)
	if c.Processor.Config != profile.DefaultConfig() {
		t.Errorf("laws %+v, want %+v", c.Processor.Config, profile.DefaultConfig())
	}
	if c.Shard.Window != 5*time.Second || c.Shard.MaxDelay != 15*time.Second || c.Shard.MaxSize != 500 ||
		!c.Shard.Batching || c.Shard.MaxHeld != 4096 {
		t.Errorf("windows %+v", c.Shard)
	}
	if c.Memory != 512<<20 || c.Retry.Delay != 5*time.Second || c.Retry.Attempts != 5 || c.Timeout != 10*time.Second {
		t.Errorf("%+v", c)
	}
}

// The units of a .env that was written for another worker.
func TestEnvironmentKeepsItsUnits(t *testing.T) {
	c, err := parse(t, map[string]string{
		"EMBEDDING_DECAY_LAMBDA": "0.05", "EMBEDDING_BATCH_ENABLED": "false", "EMBEDDING_BATCH_WINDOW": "7",
		"WORKER_MAX_RETRIES": "3", "WORKER_RETRY_DELAY": "2500", "WORKER_MEMORY_LIMIT": "1G", "WORKER_SHARDS": "3",
		"EMBEDDING_HISTORY": "unit", "IDEMPOTENCY_WINDOW": "3600",
	}, "--batch-window=8s").Config()
	must.OK(t, err)
	if c.Processor.Lambda != 0.05 || c.Shard.Batching || c.Shard.Window != 8*time.Second || c.Retry.Attempts != 3 ||
		c.Retry.Delay != 2500*time.Millisecond || c.Memory != 1<<30 || c.Shard.Shards != 3 ||
		c.Processor.History != profile.UnitMass || c.Processor.IDs.Retention != time.Hour {
		t.Errorf("%+v", c)
	}
}

func TestEveryFaultAtOnce(t *testing.T) {
	_, err := parse(t, map[string]string{
		"EMBEDDING_DIMENSIONS": "many", "EMBEDDING_WEIGHT_VIEW": "x", "EMBEDDING_BATCH_WINDOW": "soon",
		"WORKER_MEMORY_LIMIT": "lots", "WORKER_SHARDS": "1.5", "WORKER_MAX_RETRIES": "-1",
	}).Config()
	names := []string{
		"EMBEDDING_DIMENSIONS", "EMBEDDING_WEIGHT_VIEW", "EMBEDDING_BATCH_WINDOW", "WORKER_MEMORY_LIMIT",
		"WORKER_SHARDS", "WORKER_MAX_RETRIES",
	}
	for _, name := range names {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is missing in: %v", name, err)
		}
	}
	if n := len(strings.Split(err.Error(), "\n")); n != len(names) {
		t.Errorf("%d faults reported, want %d: %v", n, len(names), err)
	}
	_, err = parse(t, map[string]string{
		"EMBEDDING_DIMENSIONS": "0", "EMBEDDING_WEIGHT_VIEW": "-1", "EMBEDDING_BATCH_WINDOW": "0",
		"WORKER_MEMORY_LIMIT": "512M", "WORKER_SHARDS": "-1", "WORKER_RETRY_DELAY": "0", "WORKER_MAX_RETRIES": "5", "EMBEDDING_HISTORY": "x",
		"EMBEDDING_BATCH_MAX_SIZE": "5000",
	}).Config()
	for _, name := range []string{
		"EMBEDDING_DIMENSIONS", "EMBEDDING_WEIGHT_VIEW", "EMBEDDING_BATCH_WINDOW", "WORKER_SHARDS",
		"WORKER_RETRY_DELAY", "EMBEDDING_HISTORY", "EMBEDDING_BATCH_MAX_SIZE",
	} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is missing in: %v", name, err)
		}
	}
}

// Promise(bounds/held)
func TestPrefetchFitsTheBudget(t *testing.T) {
	c, err := parse(t, map[string]string{"WORKER_MEMORY_LIMIT": "64M", "WORKER_PREFETCH": "60000"}).Config()
	if err != nil || int64(c.Shard.MaxHeld)*minPerEvent > c.Shard.MaxHeldBytes {
		t.Errorf("%d events in %d bytes, %v", c.Shard.MaxHeld, c.Shard.MaxHeldBytes, err)
	}
}

// The prefetch that a daemon without settings runs with, and logs, is the documented
// default (see the documented defaults in cmd/keyfold).
func TestPrefetchInForce(t *testing.T) {
	s := parse(t, nil)
	c, err := s.Config()
	s.Bind()
	if got := c.Prefetch(); err != nil || fmt.Sprint(got) != s.Prefetch.fallback() || got != shard.DefaultConfig().MaxHeld {
		t.Errorf("%d in force, %s by default, %d in shard, %v", got, s.Prefetch.fallback(), shard.DefaultConfig().MaxHeld, err)
	}
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"512M": 512 << 20, "512m": 512 << 20, "1G": 1 << 30, "64MiB": 64 << 20, "70000000": 70000000, "100KB": 100 << 10} {
		var got Bytes
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s is %d (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "M", "-1M", "1.5G", "99999999G", "1T"} {
		if new(Bytes).UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q was read", text)
		}
	}
}
