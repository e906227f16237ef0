package notifications

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/sink/ledger/postgres"
)

// scoreCmd looks after the score.
type scoreCmd struct {
	Calibrate calibrateCmd `cmd:"" help:"Show percentiles of the cosines in decisions. Read-only."`
}

// calibrateCmd shows the cosines.
type calibrateCmd struct {
	Last cli.Span `default:"7d" help:"Look at the decisions of this time."`
}

// Help is the long text.
func (c *calibrateCmd) Help() string {
	return `Cosines of text models lie close together, and each model has a range of its own: taste_floor and taste_ceiling of a
set's score say which cosine counts as 0 and which as 1. Run the workers with NOTIFY_AI=on and a set whose score has
"taste": false: decisions then record cosines that do not count. The 5th and the 95th percentile are a good
floor and ceiling; then publish them in a set with "taste": true.

Examples:
  keyfold notify score calibrate
  keyfold notify score calibrate --last 24h -o json`
}

func (c *calibrateCmd) Check(a *app.App) error {
	var fault error
	if c.Last <= 0 {
		fault = errors.New("--last must be above 0")
	}
	return errors.Join(fault, a.CheckLedger())
}

// cosines are the figures of one type, or of all.
type cosines struct {
	Type        string             `json:"event_type"`
	Decisions   int64              `json:"decisions"`
	Known       int64              `json:"known"` // with a cosine
	Used        int64              `json:"used"`  // of these, where it took part in the score
	Percentiles map[string]float64 `json:"percentiles"`
}

// calibration is the command's answer. The bounds are null where no cosine is recorded.
type calibration struct {
	ByType  []cosines        `json:"by_type"` // "all" is the last
	Skipped map[string]int64 `json:"skipped"`
	Floor   *float64         `json:"taste_floor"`
	Ceiling *float64         `json:"taste_ceiling"`
}

// Run prints the figures.
func (c *calibrateCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		since := engine.Now() - engine.Millis(time.Duration(c.Last).Milliseconds())
		tastes, err := l.Tastes(a.Ctx, since)
		if err != nil {
			return err
		}
		skipped, err := l.SkippedTastes(a.Ctx, since)
		if err != nil {
			return err
		}
		report := calibrated(tastes)
		report.Skipped = skipped
		return a.Emit(report, report.print)
	})
}

func calibrated(tastes []postgres.Taste) *calibration {
	report := &calibration{ByType: []cosines{}}
	for i := range tastes {
		t := &tastes[i]
		row := cosines{Type: "all", Decisions: t.Decisions, Known: t.Known, Used: t.Used, Percentiles: map[string]float64{}}
		if t.Type != 0 {
			row.Type = t.Type.String()
		}
		for j, value := range t.Percentiles {
			row.Percentiles[fmt.Sprintf("p%d", postgres.TastePercentiles[j])] = value
		}
		if floor, ok := row.Percentiles["p5"]; ok && t.Type == 0 {
			ceiling := row.Percentiles["p95"]
			report.Floor, report.Ceiling = &floor, &ceiling
		}
		report.ByType = append(report.ByType, row)
	}
	return report
}

func (r *calibration) print(w *cli.Text) {
	if r.Floor == nil {
		w.Line("No decision of this time has a cosine: run the workers with NOTIFY_AI=on.")
	}
	table := tabwriter.NewWriter(w.W, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "type\tdecisions\tknown\tused")
	for _, p := range postgres.TastePercentiles {
		fmt.Fprintf(table, "\tp%d", p)
	}
	fmt.Fprintln(table)
	for _, row := range r.ByType {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d", row.Type, row.Decisions, row.Known, row.Used)
		for _, p := range postgres.TastePercentiles {
			if value, ok := row.Percentiles[fmt.Sprintf("p%d", p)]; ok {
				fmt.Fprintf(table, "\t%.3f", value)
			} else {
				fmt.Fprint(table, "\t-")
			}
		}
		fmt.Fprintln(table)
	}
	w.Err = errors.Join(w.Err, table.Flush())
	for _, why := range slices.Sorted(maps.Keys(r.Skipped)) {
		w.Line("without taste, %s: %d", why, r.Skipped[why])
	}
	if r.Floor != nil {
		w.Line(`in the set's score: "taste_floor": %.3f, "taste_ceiling": %.3f`, *r.Floor, *r.Ceiling)
	}
}
