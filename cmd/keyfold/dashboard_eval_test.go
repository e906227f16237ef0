package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

// What `eval -o json` was printed into is a page, with the figures of the page that `eval --html` has
// written; a file that is not there, is another one, or is cut off is said.
func TestDashboardOfTheLastEvaluation(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	s := newShop(t, outbox.SQLite)
	s.importProducts(t)
	s.stored(t, strings.TrimPrefix(s.url, "sqlite://"), time.Hour, sampleOf(t, 500))
	folder := t.TempDir()
	report, page := filepath.Join(folder, "eval.json"), filepath.Join(folder, "eval.html")
	url := pagesOf(t, append(s.flags(), "--eval-report", report)...) + "/evaluation"
	shows(t, url, report+" is not there yet: `keyfold eval -o json` into it makes it")

	out := s.must(t, "eval", "-o", "json", "--half-lives", "1m,1d,never", "--html", page)
	must.OK(t, os.WriteFile(report, []byte(out), 0o600))
	text := shows(t, url, "What a fresh profile finds in this log", "popularity", "chance finds")
	html, err := os.ReadFile(page)
	must.OK(t, err)
	figures := regexp.MustCompile(`<td[^>]*>(\d\.\d{4})</td>`).FindAllStringSubmatch(string(html), -1)
	for _, f := range figures {
		if !strings.Contains(text, f[1]) {
			t.Errorf("the file of --html has %s, which the page has not: %s", f[1], text)
		}
	}
	if len(figures) < 10 {
		t.Errorf("%d figures in the file", len(figures))
	}
	for _, other := range []string{"", "[]", "{}", out[:len(out)/2], `{"current_setting":"x","rows":[{"name":"x"}]}`} {
		must.OK(t, os.WriteFile(report, []byte(other), 0o600))
		shows(t, url, "holds no ", "eval -o json")
	}
}
