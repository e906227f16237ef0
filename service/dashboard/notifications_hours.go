package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"keyfold/engine/notify"
	"keyfold/internal/chart"
	"keyfold/internal/cli"
	"keyfold/service/status"
)

// hoursView is what the page shows of the last 24 hours, and of what waits.
type hoursView struct {
	At         time.Time // of the count; zero: the first one is under way
	Plots      []plot
	Reasons    *table // nil: nothing was decided
	Total      string
	Bounds     []string // what was not counted
	Faults     tallyFaults
	Waiting    status.Table
	WaitingSum string
	Oldest     string
	Unreported string
}

const (
	plottedReasons = 4
	reasonsShown   = 20
)

// view shows what is known of the last hours.
func (t *tally) view(ctx context.Context, now time.Time) hoursView {
	t.refresh(ctx)
	k := t.snapshot(now)
	v := hoursView{At: k.At, Faults: k.Faults}
	v.plots(&k)
	v.bounds(&k)
	v.waits(k.Waiting, now)
	switch n := k.Unreported; {
	case k.Faults.Unreported != "" || k.At.IsZero():
	case n.N >= n.Most:
		v.Unreported = "over " + cli.Number(n.Most)
	default:
		v.Unreported = cli.Number(n.N)
	}
	return v
}

// plots draws the hours by outcome and by the most frequent reasons.
func (v *hoursView) plots(k *known) {
	sorted, total := reasonsOf(k.Hours)
	v.Total = cli.Number(total)
	var byOutcome, byReason []chart.Series
	for _, outcome := range []notify.Outcome{notify.Now, notify.Later, notify.Never} {
		byOutcome = append(byOutcome, series(outcome.String(), k.Hours, func(c DecisionCount) bool { return c.Outcome == outcome }))
	}
	for _, one := range sorted[:min(plottedReasons, len(sorted))] {
		byReason = append(byReason, series(named(one), k.Hours, func(c DecisionCount) bool { return c.Outcome == one.Outcome && c.Reason == one.Reason }))
	}
	v.Plots = []plot{drawn("plot-outcomes", "Decisions an hour, by outcome", k.Begins, byOutcome)}
	if len(byReason) > 0 {
		v.Plots = append(v.Plots, drawn("plot-reasons", "Decisions an hour, by the most frequent reasons", k.Begins, byReason))
		shown := reasonTable(sorted, total)
		v.Reasons = &shown
	}
}

// reasonsOf adds up the hours, the most frequent reason first.
func reasonsOf(hours []*hour) (sorted []DecisionCount, total int64) {
	reasons := map[DecisionCount]int64{}
	for _, h := range hours {
		if h == nil {
			continue
		}
		for _, c := range h.Counts {
			reasons[DecisionCount{Outcome: c.Outcome, Reason: c.Reason}] += c.N
		}
	}
	for c, n := range reasons {
		c.N = n
		total += n
		sorted = append(sorted, c)
	}
	slices.SortFunc(sorted, func(a, b DecisionCount) int {
		return cmp.Or(-cmp.Compare(a.N, b.N), cmp.Compare(a.Outcome, b.Outcome), strings.Compare(a.Reason, b.Reason))
	})
	return sorted, total
}

func named(c DecisionCount) string {
	return strings.TrimSpace(c.Outcome.String() + " " + text(cli.Shorten(c.Reason, maxCell)))
}

// series are the decisions of each hour that are of it. What is not known is not drawn.
func series(name string, hours []*hour, of func(DecisionCount) bool) chart.Series {
	s := chart.Series{Name: name}
	for _, h := range hours {
		if h == nil || h.Fault != "" {
			s.Values = append(s.Values, math.NaN())
			continue
		}
		n := int64(0)
		for _, c := range h.Counts {
			if of(c) {
				n += c.N
			}
		}
		s.Values = append(s.Values, float64(n))
	}
	return s
}

func drawn(id, title string, begins []time.Time, all []chart.Series) plot {
	p := chart.Plot{ID: id, Title: title, From: begins[0], Until: begins[len(begins)-1], Times: begins, Series: all}
	one := plot{ID: id, Title: title, SVG: p.SVG(), Table: p.Table()}
	for _, s := range all {
		one.Lines = append(one.Lines, s.Name)
	}
	return one
}

func reasonTable(sorted []DecisionCount, total int64) table {
	t := table{ID: "reasons", Table: status.Table{Head: []string{"Outcome", "First reason", "Decisions", "Share"}}}
	for _, c := range sorted {
		t.Rows = append(t.Rows, []string{c.Outcome.String(), cmp.Or(c.Reason, "-"), cli.Number(c.N), fmt.Sprintf("%.1f %%", 100*float64(c.N)/float64(total))})
	}
	return t.upTo(reasonsShown)
}

// bounds says of which hours not all was counted.
func (v *hoursView) bounds(k *known) {
	unknown, slow := 0, 0
	for i, h := range k.Hours {
		switch {
		case h == nil:
			unknown++
		case h.Fault != "":
			slow++
		case h.Over > 0:
			v.Bounds = append(v.Bounds, fmt.Sprintf("%s UTC: over %s, the first of which are shown", k.Begins[i].Format("15:04"), cli.Number(h.Over)))
		}
	}
	if slow > 0 {
		v.Bounds = append(v.Bounds, fmt.Sprintf("%s cannot be counted within 2 s", countedHours(slow)))
	}
	if unknown > 0 && v.Faults.Hours == "" {
		v.Bounds = append(v.Bounds, countedHours(unknown)+" not counted yet: look again in a moment")
	}
}

func countedHours(n int) string {
	if n == 1 {
		return "1 hour"
	}
	return fmt.Sprintf("%d hours", n)
}

// waits shows what waits by the time it is due.
func (v *hoursView) waits(all []WaitingCount, now time.Time) {
	v.Waiting.Head = []string{"Type", "Due", "Claimed", "In 1 min", "In 1 h", "In 1 day", "Later"}
	var sum WaitingCount
	for _, c := range all {
		v.Waiting.Rows = append(v.Waiting.Rows, c.row(c.Type))
		sum.Due, sum.Claimed = sum.Due+c.Due, sum.Claimed+c.Claimed
		sum.Minute, sum.Hour, sum.Day, sum.Beyond = sum.Minute+c.Minute, sum.Hour+c.Hour, sum.Day+c.Day, sum.Beyond+c.Beyond
		if !c.Oldest.IsZero() && (sum.Oldest.IsZero() || c.Oldest.Before(sum.Oldest)) {
			sum.Oldest = c.Oldest
		}
	}
	if len(all) > 1 {
		v.Waiting.Rows = append(v.Waiting.Rows, sum.row("all"))
	}
	due, beyond := sum.Due+sum.Claimed, sum.Minute+sum.Hour+sum.Day+sum.Beyond
	v.WaitingSum = cli.Number(due + beyond)
	if due >= mostWaiting || beyond >= mostWaiting {
		v.WaitingSum = "over " + cli.Number(max(due, beyond))
	}
	if !sum.Oldest.IsZero() && sum.Oldest.Before(now) {
		v.Oldest = cli.Age(now.Sub(sum.Oldest))
	}
}

func (c *WaitingCount) row(name string) []string {
	row := []string{name}
	for _, n := range []int64{c.Due, c.Claimed, c.Minute, c.Hour, c.Day, c.Beyond} {
		row = append(row, cli.Number(n))
	}
	return row
}
