package main

import (
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyfold/engine/metric"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/embedding"
	"keyfold/source/outbox"
	"keyfold/source/vector"
	"keyfold/source/vector/openai"
	"keyfold/source/vector/rediscache"
)

// The pages of a worker, of an API with a relay, and of the way to an embedding API,
// read as strictly as Prometheus's text format is meant.
func TestMetricsPages(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	_, page := s.work(t).ready().get("/metrics")
	checkMetrics(t, "work", page, "keyfold_events_total", "keyfold_rabbitmq_returned_total", "keyfold_rabbitmq_in_hand",
		"messages_processed_total", "messages_failed_total", "embedding_update_duration_seconds", "worker_instances_active",
		"keyfold_event_to_profile_seconds", "keyfold_flush_seconds", "keyfold_store_call_seconds", "keyfold_held_bytes", "keyfold_rabbitmq_unacked", "keyfold_retries_unconfirmed",
		"keyfold_breaker_probes_total", "keyfold_phrases_total", "keyfold_build_info", "go_goroutines", "process_start_time_seconds")
	api := s.service(t, "ingest", "--relay", "--http-addr=127.0.0.1:0").ready()
	api.accepted(event(17, profile.ProductView, 1, time.Now().Add(-time.Hour), "one"))
	eventually(t, "the backlog is read", func() error {
		if _, page = api.get("/metrics"); !strings.Contains(page, "keyfold_outbox_unsent") {
			return errors.New("not yet")
		}
		return nil
	})
	checkMetrics(t, "ingest", page, "keyfold_rabbitmq_publisher_blocked", "keyfold_ingest_requests_total", "keyfold_ingest_request_duration_seconds", "keyfold_outbox_unsent",
		"events_published_total", "keyfold_outbox_store_rows_total", "keyfold_relay_delay_seconds", "keyfold_build_info", "go_goroutines")

	redis := rediscache.DefaultConfig()
	redis.URL, redis.Model, redis.Dimensions = "redis://127.0.0.1:1", "m", 8
	way := embedding.Config{API: openai.DefaultConfig(), Phrases: vector.DefaultConfig(), Redis: &redis, PhraseTimeout: time.Second}
	way.API.Key, way.API.Model, way.API.Dimensions = "k", "m", 8
	e, err := embedding.New(way, 0, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	defer e.Close()
	var set metric.Set
	var text strings.Builder
	e.Register(&set)
	set.WritePrometheus(&text)
	checkMetrics(t, "embedding", text.String(), "keyfold_embedding_tokens_total", "keyfold_embedding_request_seconds", "keyfold_redis_hits_total", "keyfold_breaker_open")
}

var (
	comment = regexp.MustCompile(`^# (HELP|TYPE) ([a-z][a-z0-9_]*) ?(.*)$`)
	sampled = regexp.MustCompile(`^([a-z][a-z0-9_]*)(\{[a-zA-Z_]+="[^"]*"(?:, ?[a-zA-Z_]+="[^"]*")*\})? (\S+)$`)
	unit    = regexp.MustCompile(`_(ms|millis|milliseconds|minutes|hours|kb|kib|mb|mib)(_|$)`)
)

// checkMetrics finds families that are described twice or not at all, whose series do
// not follow, or whose name does not have its type's or unit's ending. The process's
// own families come from a library, which gives them no help.
func checkMetrics(t *testing.T, page, text string, wanted ...string) {
	t.Helper()
	documented, err := os.ReadFile("../../docs/METRICS.md")
	must.OK(t, err)
	kinds, series := map[string]string{}, map[string]bool{}
	helped, family := "", ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if c := comment.FindStringSubmatch(line); c != nil {
			name, rest := c[2], c[3]
			own := !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_")
			if c[1] == "HELP" && own && (!strings.Contains(string(documented), "`"+name) || !strings.Contains(string(documented), rest)) {
				t.Errorf("%s: docs/METRICS.md has no %s with the help %q", page, name, rest)
			}
			switch {
			case c[1] == "HELP":
				if kinds[name] != "" || own && !strings.HasSuffix(rest, ".") {
					t.Errorf("%s: %s comes again, or its help is no sentence", page, line)
				}
				helped = name
			case helped != name || kinds[name] != "":
				t.Errorf("%s: %s stands without help before it, or comes again", page, line)
			case own && ((rest == "counter") != strings.HasSuffix(name, "_total") || rest == "histogram" && !strings.HasSuffix(name, "_seconds") && !strings.HasSuffix(name, "_per_commit") || unit.MatchString(name)):
				t.Errorf("%s: the %s %s has another type's or unit's name", page, rest, name)
			default:
				family, kinds[name] = name, rest
			}
			continue
		}
		sample := sampled.FindStringSubmatch(line)
		if sample == nil {
			t.Errorf("%s: %q is no sample", page, line)
			continue
		}
		name := sample[1]
		if k := kinds[family]; k == "histogram" || k == "summary" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, part)
			}
		}
		if _, err := strconv.ParseFloat(sample[3], 64); err != nil || name != family || series[sample[1]+sample[2]] {
			t.Errorf("%s: %q does not follow its family's type, or comes again: %v", page, line, err)
		}
		series[sample[1]+sample[2]] = true
	}
	for _, name := range wanted {
		if kinds[name] == "" {
			t.Errorf("%s: no %s in\n%s", page, name, text)
		}
	}
}
