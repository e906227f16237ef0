package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

var used = regexp.MustCompile(`keyfold_\w+`)

// programMetrics returns the names of the series that product code registers, a histogram
// with its three.
func programMetrics(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for name, f := range families(t) {
		names[name] = true
		if f.kind == "histogram" {
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				names[name+part] = true
			}
		}
	}
	return names
}

// The rules and the dashboard use metrics that the programs have, and the rules cover
// every metric that the operators' page tells to alert on.
func TestMetricsOfRulesAndDashboard(t *testing.T) {
	there := programMetrics(t)
	read := func(path string) string {
		text, err := os.ReadFile(path)
		must.OK(t, err)
		return string(text)
	}
	rules, dashboard, page := read("alerts.yml"), read("grafana.json"), read("../docs/OPERATIONS.md")
	for path, text := range map[string]string{
		"alerts.yml": rules, "grafana.json": dashboard, "docs/OPERATIONS.md": page, "docs/RUNBOOK.md": read("../docs/RUNBOOK.md"),
	} {
		names := map[string]bool{}
		for _, name := range used.FindAllString(text, -1) {
			names[name] = true
			if !there[name] {
				t.Errorf("%s: no program has the metric %s", path, name)
			}
		}
		if len(names) < 5 {
			t.Errorf("%s names only %v", path, slices.Sorted(maps.Keys(names)))
		}
	}
	for line := range strings.Lines(page) {
		if strings.Contains(line, "| alert:") && !strings.Contains(rules, used.FindString(line)) {
			t.Errorf("no rule for %s", line)
		}
	}
	if !json.Valid([]byte(dashboard)) {
		t.Error("the dashboard is no JSON")
	}
}

// Each rule has what Prometheus and a person need: an expression, a severity and two
// sentences.
func TestAlertRules(t *testing.T) {
	text, err := os.ReadFile("alerts.yml")
	must.OK(t, err)
	rules := strings.Split(string(text), "      - alert: ")[1:]
	for _, rule := range rules {
		name, _, _ := strings.Cut(rule, "\n")
		for _, part := range []string{"\n        expr: ", "\n        labels: {severity: ", "\n          summary: \"", "\n          description: \"", "\n          runbook_url: \""} {
			if strings.Count(rule, part) != 1 {
				t.Errorf("%s has no single %q", name, strings.TrimSpace(part))
			}
		}
	}
	if len(rules) < 5 || strings.Contains(string(text), "\t") {
		t.Errorf("%d rules, or a tab in %s", len(rules), text)
	}
}
