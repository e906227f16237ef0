package pipeline_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/catalog"
)

// Real event logs, where there are some: folders below KEYFOLD_TEST_DATA with
// events.ndjson.gz, products.ndjson.gz and stats.json. Each is folded in both
// histories and compared with the one-at-a-time reference: the start of each with
// short vectors, as the race detector makes long ones slow, and in the soak all of it
// with whole ones.
func TestRealLogs(t *testing.T) {
	for _, log := range realLogs(t) {
		for _, history := range []profile.History{profile.Mass, profile.UnitMass} {
			t.Run(log.name+"/"+string(history), func(t *testing.T) { log.check(t, history) })
		}
	}
}

type realLog struct {
	name     string
	events   []profile.Event // valid ones
	dead     map[string]int
	bodies   int
	products []profile.Product
	stats    struct {
		Events   int `json:"events"`
		Repeated int `json:"repeated_message_ids"`
		NoPhrase int `json:"null_phrase_searches"`
		Tied     int `json:"max_events_same_user_same_timestamp"`
	}
}

func (l *realLog) check(t *testing.T, history profile.History) {
	dimensions := 96
	if soak() {
		dimensions = profile.DefaultConfig().Dimensions
	}
	j := newJob(t, l.products, dimensions)
	j.laws.History = history
	events := l.events
	if history == profile.UnitMass {
		// The law is for ordered input. The logs order ties by nothing.
		events = slices.Clone(events)
		slices.SortStableFunc(events, func(a, b profile.Event) int {
			if a.Before(&b) {
				return -1
			}
			return 1
		})
	}
	o := newOracle(t, j.laws.Config, l.products, events)
	q, p := j.fold(t, events, 256)
	folded, duplicate, missing := q.Count(engine.Folded), q.Count(engine.Duplicate), q.Count(engine.ProductMissing)
	if folded != int64(o.Folded) || duplicate != int64(o.Repeated) || missing != int64(o.Missing) {
		t.Errorf("folded %d, duplicate %d, missing %d; want %d, %d, %d", folded, duplicate, missing, o.Folded, o.Repeated, o.Missing)
	}
	if sum := int(folded+duplicate+missing) + l.deadEvents(); sum != l.bodies {
		t.Errorf("%d events accounted for of %d", sum, l.bodies)
	}
	if soak() {
		l.checkStats(t)
	}
	if err := o.CheckAll(j.profiles()); err != nil {
		t.Error(err)
	}
	t.Logf("%d events: folded %d, duplicate %d, skipped %d, dead %v; users %d, batches %d, writes %d",
		l.bodies, folded, duplicate, missing, l.dead, j.store.Len(), p.Processor.Stats().Batches.Load(), p.Processor.Stats().Writes.Load())
}

// checkStats compares a whole log with what its source says of it.
func (l *realLog) checkStats(t *testing.T) {
	if l.bodies != l.stats.Events {
		t.Errorf("%d events, want %d", l.bodies, l.stats.Events)
	}
	if n := l.dead["search_without_phrase"]; n != l.stats.NoPhrase {
		t.Errorf("%d searches without phrase, want %d", n, l.stats.NoPhrase)
	}
	if n := tied(l.events); n != l.stats.Tied {
		t.Errorf("%d events of one user at one instant, want %d", n, l.stats.Tied)
	}
}

// logStart is how much of a log is folded outside the soak.
const logStart = 2_000

func soak() bool { return os.Getenv("KEYFOLD_SOAK") != "" }

func (l *realLog) deadEvents() (n int) {
	for _, count := range l.dead {
		n += count
	}
	return n
}

// tied returns the most events of one user at one instant.
func tied(events []profile.Event) (most int) {
	type instant struct {
		user int32
		at   engine.Millis
	}
	counts := map[instant]int{}
	for i := range events {
		k := instant{events[i].UserID, events[i].OccurredAt}
		counts[k]++
		most = max(most, counts[k])
	}
	return most
}

func realLogs(t *testing.T) (all []*realLog) {
	folders, err := filepath.Glob(filepath.Join(os.Getenv("KEYFOLD_TEST_DATA"), "*", "events.ndjson.gz"))
	must.OK(t, err)
	if os.Getenv("KEYFOLD_TEST_DATA") == "" {
		folders = nil
	}
	for _, path := range folders {
		all = append(all, readLog(t, filepath.Dir(path)))
	}
	return all
}

func readLog(t *testing.T, folder string) *realLog {
	l := &realLog{name: filepath.Base(folder), dead: map[string]int{}}
	lines := openGzip(t, filepath.Join(folder, "events.ndjson.gz"))
	for lines.Scan() && (l.bodies < logStart || soak()) {
		l.bodies++
		e, err := profile.ParseEvent(lines.Bytes(), time.Now())
		if err != nil {
			l.dead[engine.ReasonOf(err)]++
			continue
		}
		l.events = append(l.events, e)
	}
	f, err := os.Open(filepath.Join(folder, "products.ndjson.gz"))
	must.OK(t, err)
	defer f.Close()
	for p, err := range catalog.ReadProducts(f) {
		must.OK(t, err)
		l.products = append(l.products, p)
	}
	stats, err := os.ReadFile(filepath.Join(folder, "stats.json"))
	must.OK(t, err)
	must.OK(t, json.Unmarshal(stats, &l.stats))
	return l
}

func openGzip(t *testing.T, path string) *bufio.Scanner {
	f, err := os.Open(path)
	must.OK(t, err)
	t.Cleanup(func() { _ = f.Close() })
	unzipped, err := gzip.NewReader(f)
	must.OK(t, err)
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	return lines
}
