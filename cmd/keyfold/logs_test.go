package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/catalog"
	"keyfold/source/rabbit"
)

// Real event logs, where there are some (folders below KEYFOLD_TEST_DATA), over
// RabbitMQ into the store: whatever the shards, the batching and the number of
// workers, the same profiles. The start of each log with one combination, the next log with
// another one; in the long form all of it.
func TestRealLogs(t *testing.T) {
	if os.Getenv("KEYFOLD_TEST_DATA") == "" {
		return
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv("KEYFOLD_TEST_DATA"), "*", "events.ndjson.gz"))
	must.OK(t, err)
	for i, file := range files {
		bodies, products := readLog(t, file)
		for j, shards := range []int{1, 4, 32} {
			for k, batching := range []bool{true, false} {
				if (i%3 != j || i%2 != k) && !long {
					continue
				}
				for _, workers := range workerCounts(shards) {
					name := fmt.Sprintf("%s/shards=%d/batching=%v/workers=%d", filepath.Base(filepath.Dir(file)), shards, batching, workers)
					t.Run(name, func(t *testing.T) { foldLog(t, bodies, products, shards, batching, workers) })
				}
			}
		}
	}
}

// workerCounts returns how many workers to try: every combination in the long form, a
// few of them otherwise.
func workerCounts(shards int) []int {
	switch {
	case long:
		return []int{1, 3}
	case shards == 4:
		return []int{3}
	default:
		return []int{1}
	}
}

func foldLog(t *testing.T, bodies [][]byte, products []profile.Product, shards int, batching bool, workers int) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: mongotest.Start(t).URI(), products: products, history: profile.Mass}
	s.setUp(t)
	args := []string{quick, fmt.Sprintf("--shards=%d", shards)}
	if !batching {
		args = append(args, "--no-batch-enabled")
	}
	daemons := make([]*daemon, workers)
	for i := range daemons {
		daemons[i] = s.work(t, args...).ready()
	}
	s.publish(t, bodies...)
	o := s.expect(t, bodies)
	s.settled(t, o)
	dead := 0
	for _, n := range o.Dead {
		dead += n
	}
	eventually(t, "malformed events are dead-lettered", func() error {
		if n := s.depth(t, rabbit.DefaultNames().DeadLetters); n != dead {
			return fmt.Errorf("%d dead letters, want %d", n, dead)
		}
		return nil
	})
	writes, conflicts := int64(0), int64(0)
	for _, d := range daemons {
		writes += d.metric("keyfold_profile_writes_total")
		conflicts += d.metric("keyfold_conflicts_total")
		d.stop()
	}
	s.emptied(t)
	t.Logf("%d events: folded %d, repeated %d, dead %d; %d users, %d writes, %d conflicts",
		o.Bodies, o.Folded, o.Repeated, dead, len(o.Users), writes, conflicts)
}

// logStart is how much of a log is folded in the short form.
const logStart = 300

func readLog(t *testing.T, path string) (bodies [][]byte, products []profile.Product) {
	t.Helper()
	f, err := os.Open(path)
	must.OK(t, err)
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	must.OK(t, err)
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	named := map[int32]bool{}
	for lines.Scan() && (len(bodies) < logStart || long) {
		bodies = append(bodies, append([]byte(nil), lines.Bytes()...))
		if e, err := profile.ParseEvent(lines.Bytes(), time.Now()); err == nil {
			named[e.ProductID] = true
		}
	}
	p, err := os.Open(filepath.Join(filepath.Dir(path), "products.ndjson.gz"))
	must.OK(t, err)
	defer p.Close()
	for product, err := range catalog.ReadProducts(p) {
		must.OK(t, err)
		if long || named[product.ID] {
			products = append(products, product)
		}
	}
	return bodies, products
}
