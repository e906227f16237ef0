package failures

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/internal/cli"
	"keyfold/service/failed"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// replay is one run over the selected letters.
type replay struct {
	letterPass
	failed.Retried
	source   Replay
	explicit bool // letters that a worker would refuse again go too
	rate     cli.Rate

	app       *app.App
	scan      *deadletter.Scan
	publisher *rabbit.Publisher
	started   time.Time
	batch     int
	pending   []*deadletter.Letter // to be published
}

// run makes a pass on connections of its own.
func (r *replay) run(a *app.App) error {
	r.app, r.started, r.batch = a, time.Now(), batchOf(r.rate)
	return a.WithPublisher("replay", func(p *rabbit.Publisher) error {
		r.publisher = p
		return scan(a, r.source, r.pass)
	})
}

func (r *replay) pass(s *deadletter.Scan) error {
	r.scan = s
	for l, err := range r.over(s) {
		if err != nil {
			return err
		}
		if r.skip(l) {
			r.stays(l)
			continue
		}
		if r.pending = append(r.pending, l); len(r.pending) < r.batch {
			continue
		}
		if err := r.flush(); err != nil {
			return err
		}
	}
	return r.flush()
}

// skip counts what is not to be published again.
func (r *replay) skip(l *deadletter.Letter) bool {
	switch {
	case l.Original == nil:
		r.Foreign++
		return true
	case !r.explicit && r.source.Refused(l) != nil:
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
func (r *replay) flush() error {
	if len(r.pending) == 0 {
		return nil
	}
	if r.dryRun {
		r.done(r.pending)
		return nil
	}
	if err := r.pace(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.app.Ctx), publishTimeout)
	defer cancel()
	var refused error
	confirmed := make([]*deadletter.Letter, 0, len(r.pending))
	for i, err := range r.source.Publish(ctx, r.app, r.publisher, r.pending) {
		if err == nil {
			confirmed = append(confirmed, r.pending[i])
			continue
		}
		r.Failed++
		if refused == nil {
			refused = fmt.Errorf("not replayed, still among the dead letters, as are those behind: %w", err)
		}
	}
	if err := failpoint.Hit(failpoint.ReplayConfirmed); err != nil {
		return err
	}
	removed := r.scan.Remove(confirmed...)
	r.done(confirmed)
	return errors.Join(refused, removed)
}

func (r *replay) done(replayed []*deadletter.Letter) {
	for _, l := range replayed {
		r.Replayed++
		r.took(l)
		if l.Reason == engine.ReasonPastHorizon {
			r.Horizon++
		}
		r.app.Log.Debug("dead letter replayed", slog.String("message_id", l.ID), l.LogUser(),
			slog.String("event_type", l.Kind), slog.Bool("dry_run", r.dryRun))
	}
	r.pending = r.pending[:0]
}

// pace waits until the next batch is due.
func (r *replay) pace() error {
	if r.rate == 0 {
		return r.app.Ctx.Err()
	}
	due := r.started.Add(time.Duration(float64(r.Replayed) / float64(r.rate) * float64(time.Second)))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return r.app.Ctx.Err()
	case <-r.app.Ctx.Done():
		return r.app.Ctx.Err()
	}
}

func (r *replay) print(a *app.App) error {
	report := struct {
		failed.Retried
		Horizon *int `json:"past_horizon,omitempty"`
		DryRun  bool `json:"dry_run"`
	}{Retried: r.Retried, DryRun: r.dryRun}
	if known, _ := r.source.Horizon(); known {
		report.Horizon = &r.Horizon
	}
	return a.Emit(report, func(w *cli.Text) { w.Line("%s", strings.Join(r.lines(), "\n  ")) })
}

// lines say what became of the letters.
func (r *replay) lines() []string {
	what := "replayed"
	if r.dryRun {
		what = "would replay"
	}
	all := []string{fmt.Sprintf("%s %d, skipped %d, failed %d", what, r.Replayed, r.Malformed+r.Foreign, r.Failed)}
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if r.Met() == 0 && r.waiting > 0 {
		add("0 of %s match; %s stats counts them by reason and type", cli.Count(int64(r.waiting), "dead letter"), r.source.Texts().Command)
	}
	if r.Malformed > 0 {
		add("%d malformed: a worker would refuse them again; name them by --error or an id to retry them all the same", r.Malformed)
	}
	if r.Foreign > 0 {
		add("%d hold no original message: they can only be shown and removed", r.Foreign)
	}
	if known, forced := r.source.Horizon(); known && !forced && r.Horizon > 0 {
		add("%d are past the horizon and come back unless their profile changed: see --force", r.Horizon)
	}
	return all
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
