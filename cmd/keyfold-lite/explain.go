package main

import "keyfold/service/profile/explanation"

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
	in := explanation.Input{Profile: profiles[0], Laws: a.config.Processor.Config, Store: file}
	if in.Events, in.Note, err = (userHistory{a, file}).Events(a.ctx, int32(c.ID), in.Profile); err != nil {
		return err
	}
	if in.Phrases, err = offlinePhrases(in.Laws); err != nil {
		return err
	}
	view, err := explanation.New(a.ctx, in, c.Options())
	if err != nil {
		return err
	}
	return a.Emit(view, view.Print)
}
