package evaluation

import (
	"context"
	"fmt"
	"math"
	"slices"

	"keyfold/engine"
	"keyfold/engine/profile/eval"
)

// The second vector of the tables of ages and windows.
var (
	tableSecond = HalfLife{"1m", 1. / 1440}
	tableMix    = 0.5
)

// ages are those of the table, in seconds; -1 is a profile made each night.
var ages = []float64{0, 2, 5, 15, 60, 600, 3600, 86400, -1}

// short is the plan of the tables: the current setting, and the same mixed with a second vector.
func (e *evaluation) short() eval.Plan {
	plan := eval.Plan{Settings: []eval.Setting{e.current}}
	if e.hasVectors() {
		plan.Settings = append(plan.Settings, e.setting(tableSecond))
		e.report.Mix = mixName(tableMix, tableSecond.Name, e.current.Name)
		plan.Mixes = []eval.Mix{{Name: e.report.Mix, Short: 1, Long: 0, Share: tableMix}}
	}
	return plan
}

// agePasses ask profiles of several ages.
func (e *evaluation) agePasses(ctx context.Context) error {
	for _, seconds := range ages {
		plan := e.short()
		name := "nightly"
		plan.Visibility = eval.Nightly{}
		if seconds >= 0 {
			name = lengthOrZero(engine.Millis(seconds * 1000))
			plan.Visibility = eval.Age(seconds * 1000)
		}
		result, err := e.pass(ctx, plan)
		if err != nil {
			return err
		}
		age := Age{Name: name, Seconds: seconds, Current: result.Rows[0].Test.HR, Band: result.Intervals(e.main, e.current.Name)[0].HR}
		if mixed := result.Row(e.report.Mix); mixed != nil {
			age.Mixed = mixed.Test.HR
		}
		e.report.Ages = append(e.report.Ages, age)
	}
	return nil
}

// windowTable lists windows around the worker's own.
func (e *evaluation) windowTable() []eval.Windows {
	windows := []eval.Windows{{}, {Gap: 1000, Most: 3000}, {Gap: 2000, Most: 5000}, {Gap: 5000, Most: 15000}, {Gap: 15000, Most: 60000}}
	if !slices.Contains(windows, e.Windows) {
		windows = append(windows, e.Windows)
		slices.SortFunc(windows, func(a, b eval.Windows) int { return int(max(-1, min(1, a.Most-b.Most))) })
	}
	return windows
}

func (e *evaluation) windowPasses(ctx context.Context) error {
	for _, windows := range e.windowTable() {
		plan := e.short()
		plan.Visibility = windows
		result, err := e.pass(ctx, plan)
		if err != nil {
			return err
		}
		w := Window{
			Name: windowText(windows), Gap: float64(windows.Gap) / 1000, Most: float64(windows.Most) / 1000,
			Writes: float64(result.Writes) / float64(result.Events), Current: result.Rows[0].Test.HR,
		}
		if mixed := result.Row(e.report.Mix); mixed != nil {
			w.Mixed = mixed.Test.HR
		}
		e.report.Windows = append(e.report.Windows, w)
	}
	return nil
}

func windowText(w eval.Windows) string {
	if w == (eval.Windows{}) {
		return "none"
	}
	return fmt.Sprintf("%s (at most %s)", lengthOrZero(w.Gap), lengthOrZero(w.Most))
}

// lengthOrZero writes a length of time, 0 as "0s".
func lengthOrZero(millis engine.Millis) string {
	if millis == 0 {
		return "0s"
	}
	return lengthText(float64(millis) / dayMillis)
}

// better reports whether a hit ratio is above another by more than rounding.
func better(a, b float64) bool { return a > b+1e-12 && !math.IsNaN(a) }
