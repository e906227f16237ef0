package notifications

import (
	"context"
	"errors"

	"keyfold/cmd/decisions"
	"keyfold/cmd/keyfold/app"
	"keyfold/service/dashboard"
	"keyfold/service/notify/published"
	"keyfold/service/notify/ruleset"
	"keyfold/sink/ledger/postgres"
)

// Command has the commands that the pages name.
const Command = "keyfold notify"

// Pages are where the pages of notifications and rules are read, and what they change.
type Pages struct {
	app  *app.App
	open func(context.Context) (*postgres.Ledger, error)
}

// NewPages returns pages over a ledger, which open opens where a page needs it.
func NewPages(a *app.App, open func(context.Context) (*postgres.Ledger, error)) *Pages {
	return &Pages{a, open}
}

// Fill adds what the pages show, and what they can change, to sources.
func (p *Pages) Fill(sources *dashboard.Sources) {
	shared := decisions.Pages{Command: Command, Open: func(ctx context.Context) (decisions.PageLedger, error) { return p.open(ctx) }}
	sources.Notifications = shared.Notifications()
	sources.Rules = &dashboard.Rules{Program: Command, Sets: p.sets, Set: p.set, Diff: p.diff, Shadow: p.shadow}
	sources.Actions = append(sources.Actions, p.actions()...)
}

func (p *Pages) sets(ctx context.Context, n int) (*ruleset.List, error) {
	l, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	return published.List(ctx, l, n)
}

func (p *Pages) set(ctx context.Context, number int64) (*ruleset.Shown, error) {
	l, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	active, err := l.Active(ctx)
	if err != nil {
		return nil, err
	}
	set, err := published.Set(ctx, l, number)
	if err != nil {
		return nil, unlessNone(err)
	}
	listed := published.Listed(&set)
	listed.InForce = number == active.Set
	return ruleset.ShownOf(listed, set.Document), nil
}

// unlessNone returns an error, nil of a set that is not there.
func unlessNone(err error) error {
	if errors.Is(err, postgres.ErrNoSet) {
		return nil
	}
	return err
}

func (p *Pages) diff(ctx context.Context, a, b int64) (*ruleset.Diff, error) {
	l, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	d, err := published.Diff(ctx, l, a, b)
	return d, unlessNone(err)
}

func (p *Pages) shadow(ctx context.Context, samples int) (*ruleset.Shadow, error) {
	l, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	return published.ShadowOf(ctx, l, samples)
}
