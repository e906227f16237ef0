package dashboard

import (
	"context"
	"time"

	"keyfold/internal/cli"
	"keyfold/source/httpapi"
)

// maxAlerts bounds the alerts that are shown.
const maxAlerts = 20

// Alert is one of Prometheus's that fires, or is about to.
type Alert struct {
	Name, State, Severity string
	Summary, Runbook      string // Runbook is the section's anchor
	Since                 time.Time
	Value                 string
}

// alertsView shows what needs a person, with what to do.
type alertsView struct {
	Fault    string
	Problems problems
	Asked    bool   // Prometheus
	Away     string // why it did not answer
	Alerts   []alertRow
	More     int
}

type alertRow struct {
	Alert
	ID      string
	For     string
	Section *section
}

func (d *Dashboard) alerts(r *httpapi.Request) *httpapi.Answer {
	seen := d.watch.current(r.Context())
	v := alertsView{Fault: seen.Fault}
	if seen.Report != nil {
		v.Problems = d.leadsToFailures(problemsOf(seen, d.manual, maxProblems))
		for i := range v.Problems.All {
			v.Problems.All[i].Open = true
		}
	} else if v.Fault == "" {
		v.Fault = errFirstLook.Error()
	}
	if d.sources.Alerts != nil {
		v.Asked = true
		ctx, cancel := context.WithTimeout(r.Context(), firstLook)
		defer cancel()
		alerts, err := d.sources.Alerts(ctx)
		if err != nil {
			v.Away = err.Error()
		}
		for i, a := range alerts {
			if i == maxAlerts {
				v.More = len(alerts) - maxAlerts
				break
			}
			v.Alerts = append(v.Alerts, alertRow{a, identifier("alert", a.Name, a.Summary), cli.Age(d.config.Now().Sub(a.Since)), d.manual.find(a.Runbook)})
		}
	}
	return d.page(r, "alerts", "Alerts", seen, v)
}
