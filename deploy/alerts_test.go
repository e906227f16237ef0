package deploy_test

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
	"keyfold/service/notify/broker"
	"keyfold/source/rabbit"
)

var (
	alertNames  = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
	runbookURLs = regexp.MustCompile(`(?m)^ +runbook_url: "docs/RUNBOOK\.md#(\w+)"$`)
	sections    = regexp.MustCompile(`(?m)^### (Keyfold\w+)$`)
	tested      = regexp.MustCompile(`alertname="(\w+)"`)
)

// names returns the distinct first groups of a pattern in a file, sorted.
func names(t *testing.T, path string, pattern *regexp.Regexp) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	must.OK(t, err)
	found := map[string]bool{}
	for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
		found[match[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// Prometheus takes the rules, and each alert fires in the world of its fault and in no other.
//
// Promise(monitoring/alerts)
func TestAlertsInPromtool(t *testing.T) {
	for _, arguments := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		if out, err := exec.CommandContext(t.Context(), "promtool", arguments...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v (.ci/needs installs promtool)\n%s", strings.Join(arguments, " "), err, out)
		}
	}
	if alerts, worlds := names(t, "alerts.yml", alertNames), names(t, "alerts_test.yml", tested); !slices.Equal(alerts, worlds) {
		t.Errorf("the alerts are %v\nthose tested %v", alerts, worlds)
	}
}

// Each alert leads to its section of the runbook, and each such section is of an alert
// and says what to look at, what to do and how to see whether it worked.
//
// Promise(monitoring/alerts)
func TestRunbookOfAlerts(t *testing.T) {
	const runbook = "../docs/RUNBOOK.md"
	alerts := names(t, "alerts.yml", alertNames)
	if written := names(t, runbook, sections); !slices.Equal(alerts, written) {
		t.Errorf("the alerts are %v\nthe runbook's sections %v", alerts, written)
	}
	text, err := os.ReadFile("alerts.yml")
	must.OK(t, err)
	urls := runbookURLs.FindAllStringSubmatch(string(text), -1)
	for i, alert := range alertNames.FindAllStringSubmatch(string(text), -1) {
		if i >= len(urls) || urls[i][1] != strings.ToLower(alert[1]) {
			t.Fatalf("%s has no runbook_url of its section", alert[1])
		}
	}
	page, err := os.ReadFile(runbook)
	must.OK(t, err)
	parts := strings.Split(string(page), "\n### ")
	for _, section := range parts[1:] {
		name, _, _ := strings.Cut(section, "\n")
		for _, want := range []string{"\n- **Means**: ", "\n- **Look**: ", "\n- **Do**: ", "\n- **Worked**: "} {
			if strings.HasPrefix(name, "Keyfold") && strings.Count(section, want) != 1 {
				t.Errorf("%s has no single %q", name, want)
			}
		}
	}
}

// Anchors of the runbook's own links are sections of it.
func TestRunbookAnchors(t *testing.T) {
	page, err := os.ReadFile("../docs/RUNBOOK.md")
	must.OK(t, err)
	anchors := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(page), -1) {
		anchors[strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")] = true
	}
	for _, link := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(string(page), -1) {
		if !anchors[link[1]] {
			t.Errorf("no section %q", link[1])
		}
	}
}

// The patterns of the rules, the dashboard and the autoscaler fit the names that keyfold gives its
// queues, and no queue that no worker consumes.
//
// Promise(monitoring/alerts, partitions/slots)
func TestPatternsOfQueues(t *testing.T) {
	profiles := rabbit.DefaultNames()
	consumed, dead := []string{profiles.Queue, profiles.PartitionQueue(0), profiles.PartitionQueue(63)}, []string{profiles.DeadLetters}
	scaled := slices.Clone(consumed)
	consumed = append(consumed, profiles.CommonQueue())
	for _, n := range broker.Inputs() {
		consumed, dead = append(consumed, n.Queue), append(dead, n.DeadLetters)
	}
	others := []string{profiles.Queue + ".retry.5000", profiles.Queue + ".layout", profiles.Queue + ".worker.1", profiles.Queue + ".slots.retry.5000", broker.Bulk().Queue + ".retry.5000"}
	patterns := func(path, around string) []string { return names(t, path, regexp.MustCompile(around)) }
	count := func(queues []string, patterns ...string) (n int) {
		for _, queue := range queues {
			if slices.ContainsFunc(patterns, func(p string) bool { return regexp.MustCompile("^(?:" + p + ")$").MatchString(queue) }) {
				n++
			}
		}
		return n
	}
	for path, around := range map[string]string{"alerts.yml": `queue=~"([^"]+)"`, "grafana.json": `queue=~\\"([^"]+)\\"`} {
		found := patterns(path, around)
		if count(consumed, found...) != len(consumed) || count(dead, found...) != len(dead) || count(others, found...) != 0 {
			t.Errorf("%s has the patterns %q", path, found)
		}
	}
	found := patterns("kubernetes/scaling.yaml", `queueName: (.+)`)
	if count(scaled, found...) != len(scaled) || len(found) != 1 || count(slices.Concat(dead, others), found...) != 0 {
		t.Errorf("scaling.yaml has the patterns %q", found)
	}
	if counted := patterns("kubernetes/scaling.yaml", `(?m)^ +excludeUnacknowledged: (.+)$`); len(counted) != 1 || counted[0] != `"true"` {
		t.Errorf("scaling.yaml excludes what workers hold: %q", counted)
	}
}
