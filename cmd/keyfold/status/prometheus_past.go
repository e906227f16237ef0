package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"keyfold/service/dashboard"
)

// points is how many values a line has at most.
const points = 90

// What the lines of a past span are, in PromQL; SPAN stands for the time that a rate is of. Rates of
// events are of workers of profiles: they have the counter of writes.
const (
	pastIn = `sum(rate(keyfold_rabbitmq_delivered_total[SPAN]) and on (instance) keyfold_profile_writes_total)
		+ (sum(rate(keyfold_stream_read_total[SPAN])) or vector(0))`
	pastFolded = `sum(rate(keyfold_events_total{outcome="folded"}[SPAN]) and on (instance) keyfold_profile_writes_total)`
	pastAge    = `histogram_quantile(QUANTILE, sum by (le) (rate(keyfold_event_to_profile_seconds_bucket[SPAN])))`
	pastQueued = `sum(max by (vhost, queue) (rabbitmq_detailed_queue_messages_ready{queue=~"user_embedding_updates([.][0-9]{2}|[.]common)?"}))`
	pastUnsent = `max(keyfold_outbox_unsent)`
)

// past asks for figures over a span of time until now.
func (p *prometheus) past(ctx context.Context, span time.Duration) (*dashboard.Past, error) {
	step := (span / points).Round(time.Second)
	until := time.Now().Truncate(step)
	found := &dashboard.Past{}
	for at := until.Add(-span); !at.After(until); at = at.Add(step) {
		found.Times = append(found.Times, at)
	}
	age := func(q string) string { return strings.ReplaceAll(pastAge, "QUANTILE", q) }
	for _, line := range []struct {
		of    *[]float64
		query string
	}{
		{&found.In, pastIn},
		{&found.Folded, pastFolded},
		{&found.Age99, age("0.99")},
		{&found.Age50, age("0.5")},
		{&found.Queued, pastQueued},
		{&found.Unsent, pastUnsent},
	} {
		var err error
		if *line.of, err = p.line(ctx, line.query, found.Times, step); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// line asks for the values of a query at these times, which a step lies between; NaN: there is none.
func (p *prometheus) line(ctx context.Context, query string, times []time.Time, step time.Duration) ([]float64, error) {
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
	unix := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	query = strings.ReplaceAll(query, "SPAN", fmt.Sprintf("%ss", seconds(max(step, 2*time.Minute))))
	var data struct {
		Result []struct{ Values [][2]json.RawMessage }
	}
	first := times[0]
	err := p.get(ctx, "query_range", url.Values{"query": {query}, "start": {unix(first)}, "end": {unix(times[len(times)-1])}, "step": {seconds(step)}}, &data)
	if err != nil {
		return nil, err
	}
	values := make([]float64, len(times))
	for i := range values {
		values[i] = math.NaN()
	}
	if len(data.Result) > 1 {
		return nil, errors.New("what answers at PROMETHEUS_URL is not Prometheus: several lines where one was asked for")
	}
	for _, one := range data.Result {
		for _, pair := range one.Values {
			var at float64
			var text string
			if json.Unmarshal(pair[0], &at) != nil || json.Unmarshal(pair[1], &text) != nil {
				return nil, errors.New("what answers at PROMETHEUS_URL is not Prometheus: a value is no pair of a time and a number")
			}
			i := int(math.Round((at - float64(first.Unix())) / step.Seconds()))
			if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(v, 0) && i >= 0 && i < len(values) {
				values[i] = v
			}
		}
	}
	return values, nil
}
