package main

import (
	"context"

	"keyfold/engine/profile"
	"keyfold/service/profile/explanation"
	"keyfold/sink/sqlite"
)

// explainCmd shows what a profile is made of.
type explainCmd struct {
	explanation.Flags `embed:""`
}

// Check judges the flags.
func (c *explainCmd) Check(*app) error { return c.CheckFlags() }

// Run prints the explanation.
func (c *explainCmd) Run(a *app) error {
	file, err := openFile(a)
	if err != nil {
		return err
	}
	defer file.Close()
	// The profile is read first: what it has folded by then is in the events.
	profiles, err := file.Load(a.ctx, []int32{int32(c.ID)})
	if err != nil {
		return err
	}
	if profiles[0] == nil {
		return noProfile(a, file, int32(c.ID))
	}
	view, err := explainProfile(a.ctx, a, file, profiles[0], c.Options())
	if err != nil {
		return err
	}
	return a.Emit(view, view.Print)
}

func explainProfile(ctx context.Context, a *app, file *sqlite.Reader, p *profile.Profile, o explanation.Options) (view *explanation.View, err error) {
	in := explanation.Input{Profile: p, Laws: a.config.Processor.Config, Store: file}
	if in.Events, in.Note, err = (userHistory{a, file}).Events(ctx, p.UserID, p); err != nil {
		return nil, err
	}
	if in.Phrases, err = offlinePhrases(in.Laws); err != nil {
		return nil, err
	}
	return explanation.New(ctx, in, o)
}
