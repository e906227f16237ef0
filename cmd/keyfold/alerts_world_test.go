package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keyfold/engine/metric"
	"keyfold/internal/testserver/must"
)

// scrapes are pages of metrics of real processes, one a minute of Prometheus's time, and what the
// rules of deploy/alerts.yml have to say at some of these minutes. In truth minutes are shorter:
// between two of them happens what an operator's minute would bring.
type scrapes struct {
	t       *testing.T
	targets []target
	minute  int
	series  map[string][]string // values by name and labels, one a minute; "_" is none
	checks  []string            // of promtool
}

// target is a page that Prometheus would read.
type target struct {
	job, instance string
	url           func() string
}

func newScrapes(t *testing.T) *scrapes {
	t.Helper()
	return &scrapes{t: t, series: map[string][]string{}}
}

// of adds a daemon, once it listens.
func (s *scrapes) of(instance string, d *daemon) {
	s.t.Helper()
	eventually(s.t, "the admin endpoint listens", func() error {
		if adminAddr.FindStringSubmatch(d.log.String()) == nil {
			return fmt.Errorf("%s", d.log)
		}
		return nil
	})
	s.targets = append(s.targets, target{"keyfold", instance, func() string {
		return "http://" + adminAddr.FindStringSubmatch(d.log.String())[1] + "/metrics"
	}})
}

// gone removes a target whose process is meant to be gone.
func (s *scrapes) gone(instance string) {
	s.targets = slices.DeleteFunc(s.targets, func(t target) bool { return t.instance == instance })
}

// scrape reads all targets: a minute has passed. It waits until what is at fault are these
// figures and no others, each an instance and a series: on a busy machine a breaker opens for a
// moment, or a process is still starting, which hold would make minutes of.
func (s *scrapes) scrape(faults ...string) {
	s.t.Helper()
	slices.Sort(faults)
	var pages []map[string]float64
	eventually(s.t, fmt.Sprintf("what is at fault is %q", faults), func() error {
		pages = s.read()
		if found := s.faults(pages); !slices.Equal(found, faults) {
			return fmt.Errorf("%q", found)
		}
		return nil
	})
	s.note(pages)
}

// read returns a page of each target, nil where it has none.
func (s *scrapes) read() []map[string]float64 {
	pages := make([]map[string]float64, len(s.targets))
	for i, target := range s.targets {
		if page, err := readPage(target.url()); err == nil {
			pages[i] = page
		}
	}
	return pages
}

// wellIs has what the figures are that say at once that something is wrong.
var wellIs = map[string]float64{
	"keyfold_ready": 1, "keyfold_breaker_open": 0, "keyfold_rabbitmq_connected": 1, "keyfold_rabbitmq_publisher_blocked": 0,
	"keyfold_relay_fault": 0, "keyfold_recommend_catalogue_fault": 0, "rabbitmq_alarms_memory_used_watermark": 0, "rabbitmq_alarms_free_disk_space_watermark": 0,
}

// faults returns what says at once that something is wrong, sorted.
func (s *scrapes) faults(pages []map[string]float64) (found []string) {
	for i, target := range s.targets {
		if pages[i] == nil {
			found = append(found, target.instance+" up")
		}
		for series, n := range pages[i] {
			family, _, _ := strings.Cut(series, "{")
			if well, known := wellIs[family]; known && n != well {
				found = append(found, target.instance+" "+series)
			}
		}
	}
	slices.Sort(found)
	return found
}

// note adds the pages of a minute.
func (s *scrapes) note(pages []map[string]float64) {
	seen := map[string]bool{}
	note := func(series, value string) {
		all := s.series[series]
		for len(all) < s.minute {
			all = append(all, "_")
		}
		s.series[series], seen[series] = append(all, value), true
	}
	for i, target := range s.targets {
		own := fmt.Sprintf("job=%q,instance=%q", target.job, target.instance)
		if pages[i] == nil {
			note("up{"+own+"}", "0")
			continue
		}
		note("up{"+own+"}", "1")
		for name, value := range pages[i] {
			family, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
			if usedInRules[family] {
				note(family+"{"+strings.Trim(labels+","+own, ",")+"}", fmt.Sprint(value))
			}
		}
	}
	// What a target has no more is stale at once, as it is to Prometheus.
	for series, all := range s.series {
		if !seen[series] && len(all) > 0 && all[len(all)-1] != "_" && all[len(all)-1] != "stale" {
			s.series[series] = append(all, "stale")
		}
	}
	s.minute++
}

func readPage(url string) (map[string]float64, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", res.Status)
	}
	if err != nil {
		return nil, err
	}
	return metric.Parse(bytes.NewReader(text))
}

// usedInRules are the names that the rules read.
var usedInRules = func() map[string]bool {
	text, err := os.ReadFile("../../deploy/alerts.yml")
	if err != nil {
		panic(err)
	}
	used := map[string]bool{}
	for _, name := range regexp.MustCompile(`\b(keyfold|rabbitmq)_\w+`).FindAllString(string(text), -1) {
		used[name] = true
	}
	return used
}()

// hold lets minutes pass in which nothing changes.
func (s *scrapes) hold(minutes int) {
	for series, all := range s.series {
		for len(all) < s.minute {
			all = append(all, "_")
		}
		last := all[len(all)-1]
		if last == "stale" {
			last = "_"
		}
		s.series[series] = append(all, slices.Repeat([]string{last}, minutes)...)
	}
	s.minute += minutes
}

// fires expects of the minute that these alerts fire and no others; those in may need not.
func (s *scrapes) fires(fault string, must []string, may ...string) {
	at := s.minute - 1
	slices.Sort(must)
	var firing []string
	for _, name := range must {
		firing = append(firing, fmt.Sprintf("{labels: '{alertname=%q}', value: 1}", name))
	}
	known := strings.Join(slices.Concat(must, may, []string{"none"}), "|")
	s.checks = append(s.checks,
		fmt.Sprintf("  # %s\n  - {expr: 'max by (alertname) (ALERTS{alertstate=\"firing\",alertname=~\"%s\"})', eval_time: %dm, exp_samples: [%s]}",
			fault, strings.Join(append(must, "none"), "|"), at, strings.Join(firing, ", ")),
		fmt.Sprintf("  - {expr: 'max by (alertname) (ALERTS{alertstate=\"firing\",alertname!~\"%s\"})', eval_time: %dm, exp_samples: []}", known, at))
}

// silent expects that no alert fires.
func (s *scrapes) silent(when string) { s.fires(when+": none", nil) }

// expected reports whether a fault has to fire an alert.
func (s *scrapes) expected(alert string) bool {
	fires := regexp.MustCompile(`exp_samples: \[.*"` + alert + `"`)
	return slices.ContainsFunc(s.checks, fires.MatchString)
}

// judge has promtool compare.
func (s *scrapes) judge() {
	s.t.Helper()
	rules, err := filepath.Abs("../../deploy/alerts.yml")
	must.OK(s.t, err)
	var text strings.Builder
	fmt.Fprintf(&text, "rule_files: [%s]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n", rules)
	for _, series := range slices.Sorted(maps.Keys(s.series)) {
		fmt.Fprintf(&text, "  - {series: '%s', values: '%s'}\n", series, strings.Join(s.series[series], " "))
	}
	fmt.Fprintf(&text, "  promql_expr_test:\n%s\n", strings.Join(s.checks, "\n"))
	file := filepath.Join(s.t.TempDir(), "scrapes.yml")
	must.OK(s.t, os.WriteFile(file, []byte(text.String()), 0o600))
	if out, err := exec.CommandContext(s.t.Context(), "promtool", "test", "rules", file).CombinedOutput(); err != nil {
		s.t.Errorf("promtool: %v (.ci/needs installs it)\n%s", err, out)
	}
}
