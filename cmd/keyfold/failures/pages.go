package failures

import (
	"context"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/service/dashboard"
	"keyfold/service/failed"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// Place is where dead letters of one kind are, for pages.
type Place struct {
	Where, Name string
	Source      Replay
}

// pages are the failures that the dashboard shows and changes.
type pages struct {
	app     *app.App
	sources map[string]Replay // by place
}

// NewPages returns the failures of events that are folded, and those of other places.
func NewPages(a *app.App, others ...Place) *dashboard.Failures {
	p := &pages{app: a, sources: map[string]Replay{}}
	from := &dashboard.Failures{Read: p.read, Retry: p.retry, Remove: p.remove}
	if a.Servers.SQL != "" {
		from.Archive = p.archive
		from.Places = append(from.Places, dashboard.FailurePlace{Where: inSQL, Name: "rows that were set aside in SQL"})
	}
	for _, o := range append([]Place{{inBroker, "dead letters of profiles", retried{}}}, others...) {
		p.sources[o.Where] = o.Source
		from.Places = append(from.Places, dashboard.FailurePlace{
			Where: o.Where, Name: o.Name, Queue: o.Source.Queue().DeadLetters, Archive: o.Where == inBroker && a.Servers.SQL != "",
		})
	}
	return from
}

// within is the application under the bound of a page or an action.
func (p *pages) within(ctx context.Context) *app.App {
	bounded := *p.app
	bounded.Ctx = ctx
	return &bounded
}

func (p *pages) read(ctx context.Context, where, id string, each func(*failed.Letter, int) bool) (waiting int, err error) {
	a := p.within(ctx)
	show := func(all letters) error {
		for l, err := range all {
			if err != nil {
				return err
			}
			if !each(viewOf(where, l), waiting) {
				return nil
			}
		}
		return nil
	}
	if where == inSQL {
		err = a.WithDatabase(func(db *outbox.Database) error {
			ids, err := failedIDs(a, db, id)
			if waiting = len(ids); err != nil {
				return err
			}
			return show(rowsOf(a, db, id))
		})
		return waiting, err
	}
	err = p.given(a, where, func() error {
		return scan(a, p.sources[where], func(s *deadletter.Scan) error {
			waiting = s.Waiting
			return show(s.Letters(ctx))
		})
	}, func() int { return waiting })
	return waiting, err
}

// giveBackWait bounds the wait for letters to be back.
const giveBackWait = 5 * time.Second

// given makes a pass, and waits until the queue has back what the pass did not take: a quorum queue
// takes letters back after the connection has ended, and a pass right behind would miss them.
func (p *pages) given(a *app.App, where string, pass func() error, left func() int) error {
	if err := pass(); err != nil {
		return err
	}
	queue := p.sources[where].Queue().DeadLetters
	for until := time.Now().Add(giveBackWait); time.Now().Before(until) && a.Ctx.Err() == nil; {
		if n, err := rabbit.Depth(a.Ctx, a.Servers.RabbitMQ, queue); err != nil || n >= left() {
			return nil //nolint:nilerr // the pass was made: who needs the queue next is told
		}
		time.Sleep(100 * time.Millisecond) // each look is a connection
	}
	return nil
}

// pass is the pass of an order.
func (p *pages) pass(a *app.App, o dashboard.FailureOrder) letterPass {
	return letterPass{
		Selection: Selection{Source: p.sources[o.Where], Matches: o.Matches, Limit: uint(o.Limit), Place: o.Where}, //nolint:gosec // a count
		dryRun:    o.DryRun,
		gone:      func(l *deadletter.Letter) { o.Gone(viewOf(o.Where, l)) },
		read: func(s *deadletter.Scan) letters {
			return func(yield func(*deadletter.Letter, error) bool) {
				read := int64(0)
				for l, err := range s.Letters(a.Ctx) {
					read++
					o.At(read, int64(s.Waiting))
					if !yield(l, err) {
						return
					}
				}
			}
		},
	}
}

// left is how many letters a queue has back after a pass that took some.
func (p *letterPass) left(taken int) int {
	if p.dryRun {
		return p.waiting
	}
	return p.waiting - taken
}

func (p *pages) retry(ctx context.Context, o dashboard.FailureOrder) (*dashboard.FailureResult, error) {
	a := p.within(ctx)
	if o.Where == inSQL {
		return p.rows(a, o, givenLine, (*outbox.Database).RetryFailed)
	}
	r := &replay{letterPass: p.pass(a, o), source: p.sources[o.Where], explicit: o.Named}
	err := p.given(a, o.Where, func() error { return r.run(a) }, func() int { return r.left(r.Replayed) })
	return &dashboard.FailureResult{
		Met: int64(r.Met()), Done: int64(r.Replayed), Failed: int64(r.Failed), Reasons: r.reasons, Lines: r.lines(),
	}, err
}

func (p *pages) remove(ctx context.Context, o dashboard.FailureOrder) (*dashboard.FailureResult, error) {
	a := p.within(ctx)
	if o.Where == inSQL {
		line := func(n int64, dryRun bool) string { return removedLine(n, "row", "deleted", dryRun) }
		return p.rows(a, o, line, (*outbox.Database).RemoveFailed)
	}
	r := &removing{letterPass: p.pass(a, o)}
	err := p.given(a, o.Where, func() error { return r.run(a) }, func() int { return r.left(int(r.Removed)) })
	return &dashboard.FailureResult{
		Met: r.Removed, Done: r.Removed, Reasons: r.reasons, Lines: []string{removedLine(r.Removed, "dead letter", "discarded", o.DryRun)},
	}, err
}

func (p *pages) archive(ctx context.Context, o dashboard.FailureOrder) (*dashboard.FailureResult, error) {
	a := p.within(ctx)
	r := &archiving{letterPass: p.pass(a, o)}
	err := p.given(a, o.Where, func() error { return r.run(a) }, func() int { return r.left(int(r.Archived + r.Known)) })
	n := r.Archived + r.Known
	return &dashboard.FailureResult{Met: n + r.Unfit, Done: n, Reasons: r.reasons, Lines: r.lines()}, err
}

// rows does to the selected rows what change does.
func (p *pages) rows(a *app.App, o dashboard.FailureOrder, line func(int64, bool) string,
	change func(*outbox.Database, context.Context, ...int64) (int64, error),
) (*dashboard.FailureResult, error) {
	r := &dashboard.FailureResult{Reasons: failed.Reasons{}}
	err := a.WithDatabase(func(db *outbox.Database) error {
		all, err := picked(limited(matching(rowsOf(a, db, o.ID), inSQL, o.Matches), uint(o.Limit)), "") //nolint:gosec // a count
		if err != nil {
			return err
		}
		r.Met, r.Done = int64(len(all)), int64(len(all))
		for _, l := range all {
			r.Reasons.Of(reasonOf(l)).Done++
		}
		if o.DryRun || len(all) == 0 {
			return nil
		}
		if r.Done, err = change(db, a.Ctx, rowIDs(all)...); err != nil {
			return err // which of them went is not known: the next pass shows it
		}
		for _, l := range all {
			o.Gone(viewOf(inSQL, l))
		}
		return nil
	})
	r.Lines = []string{line(r.Done, o.DryRun)}
	return r, err
}
