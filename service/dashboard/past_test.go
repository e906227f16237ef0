package dashboard

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"keyfold/internal/chart"
)

// Plots are of the span that the viewer chooses, where another program keeps the figures; what is
// wrong with it is said in its place.
func TestPlotsOfALongerSpan(t *testing.T) {
	var asked time.Duration
	var fault error
	sources := everything()
	sources.Past = func(_ context.Context, span time.Duration) (*Past, error) {
		asked = span
		p := &Past{}
		for i := range 91 {
			p.Times = append(p.Times, noon.Add(-span+time.Duration(i)*span/90))
			p.In, p.Folded = append(p.In, float64(i)), append(p.Folded, math.NaN())
			p.Age99, p.Age50, p.Queued, p.Unsent = append(p.Age99, 9.5), append(p.Age50, 5), append(p.Queued, 42), append(p.Unsent, 7)
		}
		return p, fault
	}
	d := shownAs(t, Config{}, sources, nil)
	s := guarded(t, d, onLoopback())
	for value, want := range map[string]struct {
		span time.Duration
		says []string
	}{
		"":    {0, []string{"over 15 min"}},
		"1h":  {time.Hour, []string{"in 90/s, between 0 and 90; folded not known", "over 1 h"}},
		"24h": {24 * time.Hour, []string{"over 24 h", "23 Nov 1"}},
		"7d":  {7 * 24 * time.Hour, []string{"over 7 d", "20 Nov 1"}},
		"9y":  {0, []string{"over 15 min"}},
	} {
		asked = 0
		_, page := get(t, s, "/?range="+value)
		for _, w := range want.says {
			if !strings.Contains(page, w) {
				t.Errorf("%q: the page does not say %q", value, w)
			}
		}
		if asked != want.span || len(page) > 60<<10 {
			t.Errorf("%q: asked for %v, a page of %d bytes", value, asked, len(page))
		}
	}
	fault = errors.New("no answer from <Prometheus>")
	d = shownAs(t, Config{}, sources, nil)
	if res, page := get(t, guarded(t, d, onLoopback()), "/?range=7d"); res.StatusCode != http.StatusOK || !strings.Contains(page, "no answer from &lt;Prometheus&gt;") || !strings.Contains(page, "Nothing needs a person") {
		t.Errorf("%d %s", res.StatusCode, page)
	}
	if _, page := get(t, guarded(t, shownAs(t, Config{}, everything(), nil), onLoopback()), "/?range=7d"); strings.Contains(page, "?range=") || !strings.Contains(page, "over 15 min") {
		t.Error("spans are offered that there are not")
	}
	d.results.close()
}

// The page of the last evaluation has its sentences, plots and tables, or says why there is none.
func TestTheLastEvaluation(t *testing.T) {
	sources := everything()
	_, page := get(t, guarded(t, shownAs(t, Config{}, sources, nil), onLoopback()), evaluationPath)
	for _, want := range []string{"A profile finds 30 % of cases &lt;b&gt;.", `class="chart"`, "0.3000", "Half-lives", noon.Format(time.RFC3339)} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	sources.Evaluated = func() (*chart.Page, time.Time, error) { return nil, time.Time{}, errors.New("not <there> yet") }
	if res, page := get(t, guarded(t, shownAs(t, Config{}, sources, nil), onLoopback()), evaluationPath); res.StatusCode != http.StatusOK || !strings.Contains(page, "not &lt;there&gt; yet") {
		t.Errorf("%d %s", res.StatusCode, page)
	}
}
