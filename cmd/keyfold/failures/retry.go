package failures

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/internal/cli"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// retryCmd gives failures another try.
type retryCmd[R Replay] struct {
	chosen[R] `embed:""`
	DryRun    bool     `help:"Show what would be retried and change nothing."`
	Rate      cli.Rate `placeholder:"N/s" help:"Letters a second at most; default: no limit."`
}

// Help is the long text.
func (c *retryCmd[R]) Help() string {
	t := c.Source.Texts()
	text, examples := "", ""
	if t.Several {
		text = "A row goes back to the relay. "
		examples = fmt.Sprintf("  %[1]s retry row-4711\n  %[1]s retry --in sql\n", t.Command)
	}
	return fmt.Sprintf(`%[4]sA dead letter is removed once the broker has confirmed its event, so a run that is killed loses
nothing; %[3]s. Events that a worker would refuse again
(malformed ones) are skipped unless named by --error or an id. Exit code 1 when a letter failed.

Examples:
%[5]s  %[1]s retry --error timeout --failed-after 2h --dry-run
  %[1]s retry --type %[2]s --rate 100/s
  %[1]s retry 3f9a`, t.Command, t.Type, t.Twice, text, examples)
}

// Run gives rows back to the relay, then publishes letters again, and prints how many.
func (c *retryCmd[R]) Run(a *app.App) error {
	return each(a, c.Source.Where(c.ID), func(db *outbox.Database) error { return c.giveBack(a, db) }, func() error {
		r := &replay[R]{retryCmd: c, app: a, started: time.Now(), batch: batchOf(c.Rate)}
		err := a.WithPublisher("replay", func(p *rabbit.Publisher) error {
			r.publisher = p
			return scan(a, c.Source, r.run)
		})
		return errors.Join(err, r.print())
	})
}

func (c *retryCmd[R]) giveBack(a *app.App, db *outbox.Database) error {
	rows, err := c.rows(a, db)
	if err != nil {
		return err
	}
	given := int64(len(rows))
	if !c.DryRun && given > 0 {
		if given, err = db.RetryFailed(a.Ctx, rowIDs(rows)...); err != nil {
			return err
		}
	}
	return a.Emit(map[string]any{"given_back": given, "dry_run": c.DryRun}, func(w *cli.Text) {
		verb := "given back to the relay"
		if c.DryRun {
			verb = "would be " + verb
		}
		w.Line("%s %s", cli.Count(given, "row"), verb)
	})
}

// replay is one run. A letter is in at most one of the counts.
type replay[R Replay] struct {
	*retryCmd[R] `json:"-"`

	app       *app.App
	scan      *deadletter.Scan
	publisher *rabbit.Publisher
	started   time.Time
	batch     int
	waiting   []*deadletter.Letter

	Replayed  int `json:"replayed"`
	Malformed int `json:"skipped_malformed"`
	Foreign   int `json:"skipped_foreign"`
	Failed    int `json:"failed"`
	horizon   int // of the replayed ones
}

func (r *replay[R]) run(s *deadletter.Scan) error {
	r.scan = s
	for l, err := range r.letters(Watched(r.app, s, "retrying")) {
		if err != nil {
			return err
		}
		if r.skip(l) {
			continue
		}
		if r.waiting = append(r.waiting, l); len(r.waiting) < r.batch {
			continue
		}
		if err := r.flush(); err != nil {
			return err
		}
	}
	return r.flush()
}

// skip counts what is not to be published again.
func (r *replay[R]) skip(l *deadletter.Letter) bool {
	switch explicit := r.ID != "" || r.Error != ""; {
	case l.Original == nil:
		r.Foreign++
		return true
	case !explicit && r.Source.Refused(l) != nil:
		r.Malformed++
		return true
	default:
		return false
	}
}

// publishTimeout bounds one batch: an alarm makes the broker take nothing.
const publishTimeout = 30 * time.Second

// flush sends what waits and removes the letters the broker confirmed. A batch
// that was begun is ended, also where the user stops the program meanwhile.
func (r *replay[R]) flush() error {
	if len(r.waiting) == 0 {
		return nil
	}
	if r.DryRun {
		r.done(r.waiting)
		return nil
	}
	if err := r.pace(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.app.Ctx), publishTimeout)
	defer cancel()
	var failed error
	confirmed := make([]*deadletter.Letter, 0, len(r.waiting))
	for i, err := range r.Source.Publish(ctx, r.app, r.publisher, r.waiting) {
		if err == nil {
			confirmed = append(confirmed, r.waiting[i])
			continue
		}
		r.Failed++
		if failed == nil {
			failed = fmt.Errorf("not replayed, still among the dead letters, as are those behind: %w", err)
		}
	}
	if err := failpoint.Hit(failpoint.ReplayConfirmed); err != nil {
		return err
	}
	removed := r.scan.Remove(confirmed...)
	r.done(confirmed)
	return errors.Join(failed, removed)
}

func (r *replay[R]) done(replayed []*deadletter.Letter) {
	for _, l := range replayed {
		r.Replayed++
		if l.Reason == engine.ReasonPastHorizon {
			r.horizon++
		}
		r.app.Log.Debug("dead letter replayed", slog.String("message_id", l.ID), l.LogUser(),
			slog.String("event_type", l.Kind), slog.Bool("dry_run", r.DryRun))
	}
	r.waiting = r.waiting[:0]
}

// pace waits until the next batch is due.
func (r *replay[R]) pace() error {
	if r.Rate == 0 {
		return r.app.Ctx.Err()
	}
	due := r.started.Add(time.Duration(float64(r.Replayed) / float64(r.Rate) * float64(time.Second)))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.app.Ctx.Err()
	case <-r.app.Ctx.Done():
		return r.app.Ctx.Err()
	}
}

func (r *replay[R]) print() error {
	report := struct {
		*replay[R]
		Horizon *int `json:"past_horizon,omitempty"`
		DryRun  bool `json:"dry_run"`
	}{replay: r, DryRun: r.DryRun}
	known, forced := r.Source.Horizon()
	if known {
		report.Horizon = &r.horizon
	}
	return r.app.Emit(report, func(w *cli.Text) {
		what := "replayed"
		if r.DryRun {
			what = "would replay"
		}
		w.Line("%s %d, skipped %d, failed %d", what, r.Replayed, r.Malformed+r.Foreign, r.Failed)
		if n := r.Replayed + r.Malformed + r.Foreign + r.Failed; n == 0 && r.scan != nil && r.scan.Waiting > 0 {
			w.Line("  0 of %s match; %s stats counts them by reason and type", cli.Count(int64(r.scan.Waiting), "dead letter"), r.Source.Texts().Command)
		}
		if r.Malformed > 0 {
			w.Line("  %d malformed: a worker would refuse them again; name them by --error or an id to retry them all the same", r.Malformed)
		}
		if r.Foreign > 0 {
			w.Line("  %d hold no original message: they can only be shown and removed", r.Foreign)
		}
		if known && !forced && r.horizon > 0 {
			w.Line("  %d are past the horizon and come back unless their profile changed: see --force", r.horizon)
		}
	})
}

// maxReplayBatch is how many letters are published before their confirms are
// awaited: what a kill leaves a copy of at most.
const maxReplayBatch = 256

// batchOf is a fifth of a second's letters, so that a rate is kept evenly.
func batchOf(r cli.Rate) int {
	if r == 0 {
		return maxReplayBatch
	}
	return max(1, min(int(r/5), maxReplayBatch))
}
