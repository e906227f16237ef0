package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/redistest"

	"keyfold/source/sample"
	"keyfold/source/vector/openai"
)

// toldBy are the programs of which each metric that the rules read tells, with the label values
// that they select. What the broker tells is on its own pages.
var toldBy = map[string][]string{
	"keyfold_ready":                              {"work", "relay", "ingest", "ingest --relay", "serve", "partition", "notify work", "notify serve"},
	"keyfold_events_total":                       {"work"},
	"keyfold_event_to_profile_seconds":           {"work"},
	"keyfold_breaker_open store":                 {"work"},
	"keyfold_breaker_open embedding_api":         {"work"},
	"keyfold_breaker_open ledger":                {"notify work"},
	"keyfold_embedding_failures_total":           {"work"},
	"keyfold_embedding_requests_total":           {"work"},
	"keyfold_store_failures_total":               {"work"},
	"keyfold_rabbitmq_publisher_blocked":         {"work", "relay", "ingest --relay", "partition", "notify work", "notify serve"},
	"keyfold_rabbitmq_connected":                 {"work", "partition", "notify work"},
	"keyfold_rabbitmq_room":                      {"work", "notify work"},
	"keyfold_rabbitmq_prefetch":                  {"work", "notify work"},
	"keyfold_dead_letters_total":                 {"work", "notify work"},
	"keyfold_dead_letters_unstored":              {"work", "notify work"},
	"keyfold_outbox_oldest_unsent_seconds":       {"relay", "ingest", "ingest --relay"},
	"keyfold_outbox_failed":                      {"relay", "ingest", "ingest --relay"},
	"keyfold_relay_fault":                        {"relay", "ingest --relay"},
	"keyfold_ingest_requests_total":              {"ingest", "ingest --relay", "serve", "notify serve"},
	"keyfold_recommend_catalogue_fault":          {"serve"},
	"keyfold_partitioned_failures_total":         {"partition"},
	"keyfold_stream_lag_seconds":                 {"work"},
	"keyfold_stream_unread":                      {"work"},
	"keyfold_stream_truncated_total":             {"work"},
	"keyfold_notify_partitions_ahead_days":       {"notify work"},
	"keyfold_notify_rules_fault":                 {"notify work", "notify serve"},
	"keyfold_notify_bloom_fill_ratio":            {"notify serve"},
	"keyfold_notify_unreported":                  {"notify work"},
	"keyfold_notify_oldest_undispatched_seconds": {"notify work"},
	"keyfold_notify_event_to_dispatch_seconds":   {"notify work"},
	"keyfold_notify_deferral_lag_seconds":        {"notify work"},
}

var (
	ruleOf    = regexp.MustCompile(`(?s)alert: (\w+)\n(.*?)\n +labels:`)
	selector  = regexp.MustCompile(`\b((?:keyfold|rabbitmq)_\w+)(?:\{([^}]*)\})?`)
	condition = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"([^"]*)"`)
	labelled  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// Each metric that an alert reads is on the page of each program that it is about right after
// the program's start, with the label values that the alert selects: a figure that comes with
// the first event is not there to be compared when that event is at fault.
//
// Promise(monitoring/series): What an alert reads is on its programs' pages from their start on; a
// broker's alarm fires its alert while no process publishes.
func TestAlertsReadWhatProgramsTell(t *testing.T) {
	t.Parallel()
	pages := newPages(t)
	text, err := os.ReadFile("../../deploy/alerts.yml")
	must.OK(t, err)
	alerts := ruleOf.FindAllStringSubmatch(string(text), -1)
	if len(alerts) != len(alertName.FindAllString(string(text), -1)) {
		t.Fatalf("%d rules were read", len(alerts))
	}
	for _, alert := range alerts {
		t.Run(alert[1], func(t *testing.T) {
			expr := regexp.MustCompile(`(?m)^ *#.*$`).ReplaceAllString(alert[2], "")
			for _, found := range selector.FindAllStringSubmatch(expr, -1) {
				for _, program := range programsOf(t, found[1], found[2]) {
					eventually(t, program+" tells "+found[0], func() error {
						page, err := readPage(pages[program]())
						if err == nil && !tells(page, found[1], found[2]) {
							err = fmt.Errorf("not on its page")
						}
						return err
					})
				}
			}
		})
	}
	checkSections(t, pages)
}

// checkSections compares the programs' pages with the sections of docs/METRICS.md: a metric on a
// page is in a section of that program, and each program of a section tells some of it.
func checkSections(t *testing.T, pages map[string]func() string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/METRICS.md")
	must.OK(t, err)
	type section struct{ programs, metrics string }
	var sections []section
	for _, part := range strings.Split(string(text), "\n## ")[1:] {
		programs, metrics, _ := strings.Cut(part, "\n")
		sections = append(sections, section{programs, metrics})
	}
	for program, url := range pages {
		if strings.Contains(program, "broker") {
			continue
		}
		page, err := readPage(url())
		must.OK(t, err)
		told := map[int]bool{}
		for series := range page {
			name, _, _ := strings.Cut(series, "{")
			name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
				continue
			}
			at := slices.IndexFunc(sections, func(s section) bool { return regexp.MustCompile("`" + name + "[`{]").MatchString(s.metrics) })
			if at < 0 || !of(sections[at].programs, program) {
				t.Errorf("docs/METRICS.md has no %s under `keyfold %s`", name, program)
			}
			told[at] = true
		}
		for at, s := range sections {
			if of(s.programs, program) && !told[at] {
				t.Errorf("`keyfold %s` tells nothing of docs/METRICS.md's section %s", program, s.programs)
			}
		}
	}
}

// of reports whether a section's title names the program.
func of(title, program string) bool {
	if every, but, _ := strings.Cut(title, " but "); every == "Every program" {
		return !strings.Contains(but, "`keyfold "+program+"`")
	}
	return strings.Contains(title, "`keyfold "+program+"`") || program == "ingest --relay" && strings.Contains(title, "`keyfold ingest`")
}

// programsOf returns the programs that tell a metric.
func programsOf(t *testing.T, name, conditions string) []string {
	t.Helper()
	switch {
	case strings.HasPrefix(name, "rabbitmq_detailed_"):
		return []string{"queues of the broker"}
	case strings.HasPrefix(name, "rabbitmq_"):
		return []string{"the broker"}
	}
	key := strings.TrimSuffix(name, "_bucket")
	if name == "keyfold_breaker_open" {
		key += " " + condition.FindStringSubmatch(conditions)[3]
	}
	programs := toldBy[key]
	if programs == nil {
		t.Fatalf("toldBy has no %s", key)
	}
	return programs
}

// tells reports whether a page has a series of a metric that meets all conditions.
func tells(page map[string]float64, name, conditions string) bool {
	for series := range page {
		family, rest, _ := strings.Cut(series, "{")
		if family != name {
			continue
		}
		labels := map[string]string{}
		for _, l := range labelled.FindAllStringSubmatch(rest, -1) {
			labels[l[1]] = l[2]
		}
		all := true
		for _, c := range condition.FindAllStringSubmatch(conditions, -1) {
			pattern := "^(?:" + c[3] + ")$"
			if !strings.Contains(c[2], "~") {
				pattern = "^" + regexp.QuoteMeta(c[3]) + "$"
			}
			all = all && regexp.MustCompile(pattern).MatchString(labels[c[1]]) != strings.HasPrefix(c[2], "!")
		}
		if all {
			return true
		}
	}
	return false
}

// newPages starts one process of each program, and returns where their pages are.
func newPages(t *testing.T) map[string]func() string {
	t.Helper()
	broker := rabbittest.SharedWithStatistics(t)
	vhost, ledger := broker.VHost(t), pgtest.Shared(t)
	a := &apiStack{
		stack: &stack{dsn: broker.DSN(vhost), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass},
		api:   embedtest.Start(t, embedtest.Config{Dimensions: dimensions, Model: openai.DefaultModel, Key: apiKey, Seed: 7}),
		more:  []string{"--database-url=sqlite://" + filepath.Join(t.TempDir(), "outbox.db")},
	}
	if code, _, errs := a.run(t, "", "setup", "--streams=1"); code != 0 {
		t.Fatal(errs)
	}
	streams := []string{"--streams=1", "--rabbitmq-stream-uri=" + rabbittest.StreamURI(broker.StreamAddress(), vhost)}
	staged := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: mongotest.Start(t).URI(), history: profile.Mass}
	if code, _, errs := staged.run(t, "", "setup", "--partitions=1"); code != 0 {
		t.Fatal(errs)
	}
	n := &notifyStack{dsn: a.dsn, vhost: vhost, database: ledger.URL(ledger.Database(t, ""))}
	n.must(t, "setup")
	start := func(args ...string) *daemon { return startDaemon(t, a.flags(a.args(args...)...)...).ready() }
	pages := map[string]func() string{
		"the broker": broker.MetricsURL, "queues of the broker": func() string { return broker.QueueMetricsURL() + "&vhost=" + vhost },
	}
	for program, d := range map[string]*daemon{
		"work": start(append([]string{"work"}, streams...)...), "ingest": start("ingest", "--http-addr=127.0.0.1:0"), "relay": start("relay"),
		"serve":        start("serve", "--http-addr=127.0.0.1:0"),
		"partition":    startDaemon(t, append([]string{"partition"}, staged.flags()...)...).ready(),
		"notify work":  n.service(t, "work").ready(),
		"notify serve": n.service(t, "serve", "--http-addr=127.0.0.1:0", "--notify-redis-url="+redistest.Start(t).URL()).ready(),
	} {
		pages[program] = func() string { return "http://" + adminAddr.FindStringSubmatch(d.log.String())[1] + "/metrics" }
	}
	// Of an SQLite file one process publishes.
	a.more = []string{"--database-url=sqlite://" + filepath.Join(t.TempDir(), "second.db")}
	if code, _, errs := a.run(t, "", "setup"); code != 0 {
		t.Fatal(errs)
	}
	both := start("ingest", "--relay", "--http-addr=127.0.0.1:0")
	pages["ingest --relay"] = func() string { return "http://" + adminAddr.FindStringSubmatch(both.log.String())[1] + "/metrics" }
	return pages
}
