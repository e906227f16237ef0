package notifications

import (
	"errors"
	"fmt"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/sink/ledger/postgres"
)

// retentionCmd makes partitions ahead and drops those that are past.
type retentionCmd struct {
	Ahead int `default:"7" help:"Days after today that have a partition."`
}

// Help is the long text.
func (c *retentionCmd) Help() string {
	return `Run it once a day from a timer: without a partition for its day a notification waits. It makes the
partitions of the days to come, drops the days whose decisions are past NOTIFY_RETENTION, and deletes the
keys of final events that are past NOTIFY_KEY_RETENTION: such an event that comes again is a new one. Workers
go on meanwhile. It needs the owner of the tables: see NOTIFY_ADMIN_URL. What a run that failed has left is
done by the next one. Exit code 1 when another run is under way.

Examples:
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
		done, err := l.Retain(a.Ctx, engine.Now(), postgres.Retention{Ahead: c.Ahead, Records: decisions, Keys: keys})
		if errors.Is(err, postgres.ErrBusy) {
			return err
		}
		if err != nil {
			err = fmt.Errorf("it was not finished; the next run goes on with the rest: %w", err)
		}
		report := map[string]any{
			"days_made": done.Made, "days_dropped": done.Dropped, "keys_deleted": done.Keys,
			"days_ahead": done.Ahead, "locked_seconds": done.Locked.Seconds(),
		}
		return errors.Join(err, a.Emit(report, func(w *cli.Text) {
			w.Line("%s made, %s dropped", cli.Count(int64(done.Made), "day"), cli.Count(int64(done.Dropped), "day"))
			w.Line("%s deleted", cli.Count(done.Keys, "event key"))
			if err == nil {
				w.Line("%s ahead", cli.Count(int64(done.Ahead), "day"))
			}
		}))
	})
}
