package notifications

import (
	"errors"
	"fmt"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/sink/ledger/postgres"
)

// retentionCmd makes partitions ahead and drops those that are past.
type retentionCmd struct {
	Ahead  int  `default:"7" help:"Days after today that have a partition."`
	DryRun bool `name:"dry-run" help:"Say which days and how many event keys would go, and change nothing."`
}

// Help is the long text.
func (c *retentionCmd) Help() string {
	return `Run it once a day from a timer: without a partition for its day a notification waits. It makes the
partitions of the days to come, drops the days whose decisions are past NOTIFY_RETENTION, and deletes the
keys of final events that are past NOTIFY_KEY_RETENTION: such an event that comes again is a new one. Workers
go on meanwhile. It needs the owner of the tables: see NOTIFY_ADMIN_URL. What a run that failed has left is
done by the next one. Exit code 1 when another run is under way. Keys of notifications that were decided NOW
and never dispatched go with their records: a warning says how many, as keys_lost of -o json.

Examples:
  keyfold notify retention --dry-run
  keyfold notify retention
  keyfold notify retention --ahead 14 -o json
  NOTIFY_RETENTION=30d keyfold notify retention`
}

func (c *retentionCmd) Check(a *app.App) error {
	var fault error
	if c.Ahead < 1 {
		fault = errors.New("--ahead must be above 0")
	}
	return errors.Join(fault, a.CheckLedgerOwner(), a.CheckRetention())
}

// Run prints what was done, also where it failed in the middle.
func (c *retentionCmd) Run(a *app.App) error {
	decisions, keys, err := a.Retention()
	if err != nil {
		return err
	}
	return a.WithLedgerOwner(func(l *postgres.Ledger) error {
		if err := l.Check(a.Ctx); err != nil {
			return err
		}
		keep := postgres.Retention{Ahead: c.Ahead, Records: decisions, Keys: keys}
		if c.DryRun {
			return planRetention(a, l, keep)
		}
		done, err := l.Retain(a.Ctx, engine.Now(), keep)
		if errors.Is(err, postgres.ErrBusy) {
			return err
		}
		if err != nil {
			err = fmt.Errorf("it was not finished; the next run goes on with the rest: %w", err)
		}
		report := reportOf(&done)
		report["locked_seconds"] = done.Locked.Seconds()
		err = errors.Join(err, a.Emit(report, func(w *cli.Text) {
			w.Line("%s made, %s dropped", cli.Count(int64(done.Made), "day"), cli.Count(int64(done.Dropped), "day"))
			w.Line("%s deleted", cli.Count(done.Keys, "event key"))
			if err == nil {
				w.Line("%s ahead", cli.Count(int64(done.Ahead), "day"))
			}
		}))
		if done.Lost > 0 {
			fmt.Fprintf(a.Stderr, "warning: %d of the deleted event keys are of notifications that were decided NOW and never dispatched; "+
				"their decisions are past NOTIFY_RETENTION, so they cannot be dispatched any more: find the cause with `keyfold notify redispatch`, which dispatches what is younger\n", done.Lost)
		}
		return err
	})
}

// planRetention prints what a run would do.
func planRetention(a *app.App, l *postgres.Ledger, keep postgres.Retention) error {
	plan, drops, err := l.PlanRetention(a.Ctx, engine.Now(), keep)
	if err != nil {
		return err
	}
	days := make([]string, len(drops))
	for i, at := range drops {
		days[i] = at.Time().UTC().Format(time.DateOnly)
	}
	report := reportOf(&plan)
	report["dry_run"], report["days"] = true, days
	return a.Emit(report, func(w *cli.Text) {
		for _, day := range days {
			w.Line("%s would be dropped", day)
		}
		w.Line("%s would be made, %s dropped", cli.Count(int64(plan.Made), "day"), cli.Count(int64(plan.Dropped), "day"))
		w.Line("%s would be deleted, %d of them of notifications that were decided NOW and never dispatched", cli.Count(plan.Keys, "event key"), plan.Lost)
	})
}

func reportOf(r *postgres.Retained) map[string]any {
	return map[string]any{
		"days_made": r.Made, "days_dropped": r.Dropped, "days_ahead": r.Ahead,
		"keys_deleted": r.Keys, "keys_lost": r.Lost, "dry_run": false,
	}
}
