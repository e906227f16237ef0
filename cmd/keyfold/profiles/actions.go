package profiles

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/service/dashboard"
)

// Actions are what the page of a user can change. Each runs the command, first as its dry run,
// and shows what that prints.
func Actions(a *app.App) []dashboard.Action {
	return []dashboard.Action{
		{Name: dashboard.RebuildUser, Plan: planned(a, planRebuild), Do: done(a, doRebuild)},
		{Name: dashboard.ForgetUser, Letters: true, Plan: planned(a, planForget), Do: done(a, doForget)},
	}
}

// quiet is an application that prints into a buffer, under a context.
func quiet(ctx context.Context, a *app.App) (*app.App, *bytes.Buffer) {
	var out bytes.Buffer
	bounded := *a
	bounded.Ctx, bounded.Stdout, bounded.Stderr, bounded.JSON = ctx, &out, io.Discard, false
	return &bounded, &out
}

func planned(a *app.App, plan func(*app.App, cli.UserID) (*dashboard.Planned, error)) func(context.Context, url.Values, *dashboard.Progress) (*dashboard.Planned, error) {
	return func(ctx context.Context, form url.Values, _ *dashboard.Progress) (*dashboard.Planned, error) {
		var user cli.UserID
		if err := user.UnmarshalText([]byte(form.Get("user"))); err != nil {
			return nil, err
		}
		bounded, out := quiet(ctx, a)
		p, err := plan(bounded, user)
		if err != nil {
			return nil, err
		}
		p.Of, p.Count, p.Do, p.Lines = fmt.Sprintf("user %d", user), 1, user, slices.Collect(printed(out))
		return p, nil
	}
}

func done(a *app.App, do func(*app.App, cli.UserID) (int64, error)) func(context.Context, *dashboard.Planned, *dashboard.Progress) (*dashboard.Outcome, error) {
	return func(ctx context.Context, p *dashboard.Planned, _ *dashboard.Progress) (*dashboard.Outcome, error) {
		bounded, out := quiet(ctx, a)
		n, err := do(bounded, p.Do.(cli.UserID))
		return &dashboard.Outcome{Lines: slices.Collect(printed(out)), Count: n}, err
	}
}

// printed yields the lines that a command has printed.
func printed(out *bytes.Buffer) func(func(string) bool) {
	return strings.SplitSeq(strings.TrimSpace(out.String()), "\n")
}

func planRebuild(a *app.App, user cli.UserID) (*dashboard.Planned, error) {
	c := rebuildCmd{ID: user, DryRun: true}
	if err := c.Check(a); err != nil {
		return nil, err
	}
	found, err := c.run(a)
	p := &dashboard.Planned{Title: fmt.Sprintf("Rebuild the profile of user %d from its history?", user)}
	if found.Replaced > 0 {
		p.Button = fmt.Sprintf("rebuild user %d", user)
	}
	return p, err
}

func doRebuild(a *app.App, user cli.UserID) (int64, error) {
	c := rebuildCmd{ID: user}
	made, err := c.run(a)
	return int64(made.Replaced), err
}

func planForget(a *app.App, user cli.UserID) (*dashboard.Planned, error) {
	c := forgetCmd{ID: user, Confirmation: cli.Confirmation{DryRun: true}}
	if err := c.Check(a); err != nil {
		return nil, err
	}
	return &dashboard.Planned{
		Title: fmt.Sprintf("Erase user %d?", user), Button: fmt.Sprintf("erase user %d", user), Final: true,
	}, c.Run(a)
}

func doForget(a *app.App, user cli.UserID) (int64, error) {
	c := forgetCmd{ID: user, Confirmation: cli.Confirmation{Yes: true}}
	if err := c.Run(a); err != nil {
		return 0, err
	}
	return 1, nil
}
