package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/catalog"
)

var comments = regexp.MustCompile(`(?m)^ *#.*\n`)

// Docker Compose reads the file, and of each set of profiles the services are there that the others
// need.
//
// Promise(manifests/compose): Compose's file fits its schema and profiles; Prometheus's configuration
// and the dashboard's queries are valid.
func TestComposeInItsSchema(t *testing.T) {
	check := buildCheck(t)
	const file = "../docker-compose.yml"
	plain := []string{"dashboard", "ingest", "mariadb", "mongodb", "rabbitmq", "redis", "serve", "setup", "token", "worker"}
	for profiles, more := range map[string][]string{
		"":                     nil,
		"partition":            {"partition"},
		"notify":               {"notify-api", "notify-retention", "notify-setup", "notify-worker", "postgres"},
		"observability":        {"grafana", "prometheus", "traffic"},
		"observability notify": {"grafana", "notify-api", "notify-retention", "notify-setup", "notify-worker", "postgres", "prometheus", "traffic"},
	} {
		var project struct {
			Services map[string]struct {
				Deploy  struct{ Replicas int }
				Volumes []struct{ Type, Source string }
			}
		}
		checked(t, &project, check, append([]string{"compose", file}, strings.Fields(profiles)...)...)
		var services []string
		for name, service := range project.Services {
			services = append(services, name)
			for _, v := range service.Volumes {
				if _, err := os.Stat(v.Source); v.Type == "bind" && err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		slices.Sort(services)
		if want := append(slices.Clone(plain), more...); !slices.Equal(services, sorted(want)) {
			t.Errorf("with the profiles %q the services are %v", profiles, services)
		}
		if n := project.Services["worker"].Deploy.Replicas; n != 3 {
			t.Errorf("there are %d workers", n)
		}
	}
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// Prometheus takes its configuration, which loads the rules and scrapes every daemon of Compose.
//
// Promise(manifests/compose)
func TestPrometheusConfiguration(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", "prometheus.yml").CombinedOutput(); err != nil || !strings.Contains(string(out), "Checking alerts.yml") {
		t.Errorf("promtool: %v (.ci/needs installs promtool)\n%s", err, out)
	}
	config, err := os.ReadFile("prometheus.yml")
	must.OK(t, err)
	compose, err := os.ReadFile("../docker-compose.yml")
	must.OK(t, err)
	daemons := 0
	for _, part := range strings.Split(string(compose), "\n\n") {
		name := strings.TrimSpace(strings.SplitN(strings.TrimLeft(comments.ReplaceAllString(part, ""), "\n"), ":", 2)[0])
		if !strings.Contains(part, "healthcheck: *ready") && !strings.Contains(part, "healthcheck: &ready") {
			continue
		}
		daemons++
		if !strings.Contains(string(config), name+",") && !strings.Contains(string(config), name+"]") {
			t.Errorf("%s is not scraped", name)
		}
	}
	if daemons != 6 {
		t.Errorf("%d daemons were found", daemons)
	}
}

// The sample traffic is what the API and the import take, and has products that the
// catalogue has.
//
// Promise(manifests/compose)
func TestSampleTraffic(t *testing.T) {
	products := map[int32]bool{}
	for product, err := range catalog.ReadProducts(bytes.NewReader(output(t, "products"))) {
		must.OK(t, err)
		products[product.ID] = true
	}
	if len(products) != 30 {
		t.Errorf("the catalogue has %d products", len(products))
	}
	types := map[profile.EventType]bool{}
	for _, seed := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		var events []json.RawMessage
		must.OK(t, json.Unmarshal(output(t, "events", seed), &events))
		for _, text := range events {
			event, _, err := profile.CompleteEvent(text, time.Now().Add(time.Hour))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if !event.Type.HasPhrase() && !products[event.ProductID] {
				t.Errorf("no product %d", event.ProductID)
			}
			types[event.Type] = true
		}
	}
	if len(types) != 4 {
		t.Errorf("the types are %v", types)
	}
}

func output(t *testing.T, arguments ...string) []byte {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "./sample-traffic.sh", arguments...).Output()
	must.OK(t, err)
	return out
}

// Each panel of the dashboard has a place of its own, and Prometheus can read its queries.
//
// Promise(manifests/compose)
func TestDashboardsQueries(t *testing.T) {
	text, err := os.ReadFile("grafana.json")
	must.OK(t, err)
	type place struct{ X, Y, W, H int }
	var dashboard struct {
		Panels []struct {
			ID      int
			GridPos place
			Targets []struct{ Expr string }
		}
	}
	must.OK(t, json.Unmarshal(text, &dashboard))
	ids, places := map[int]bool{}, map[place]bool{}
	rules := "groups:\n  - name: dashboard\n    rules:\n"
	for _, p := range dashboard.Panels {
		ids[p.ID], places[p.GridPos] = true, true
		for i, target := range p.Targets {
			query := strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")
			rules += fmt.Sprintf("      - {record: 'panel:%d:%d', expr: '%s'}\n", p.ID, i, strings.ReplaceAll(query, "'", "''"))
		}
	}
	if n := len(dashboard.Panels); len(ids) != n || len(places) != n || n < 10 {
		t.Errorf("of %d panels there are %d ids and %d places", n, len(ids), len(places))
	}
	path := filepath.Join(t.TempDir(), "rules.yml")
	write(t, path, rules)
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v (.ci/needs installs promtool)\n%s", err, out)
	}
}
