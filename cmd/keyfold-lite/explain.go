package main

import (
	"slices"

	"keyfold/internal/settings"
	"keyfold/service/profile/explanation"
	"keyfold/source/inbox"
	"keyfold/source/vector"
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
	in := explanation.Input{Profile: profiles[0], Laws: a.config.Processor.Config, Store: file}
	stored, err := lastEvents(a.ctx, a, file, int32(c.ID), explanation.MostEvents)
	if err != nil {
		return err
	}
	inside := []string{inbox.StateFolded.String(), inbox.StateDuplicate.String()}
	for _, e := range slices.Backward(stored) {
		state := e.State
		if slices.Contains(inside, state) {
			state = ""
		}
		in.Events = append(in.Events, explanation.Event{Event: e.Event, State: state})
	}
	if len(stored) == explanation.MostEvents {
		in.Note = "only the newest 100,000 events are read: older ones are part of the remainder"
	}
	hash, err := vector.NewHash(in.Laws.Dimensions)
	if err != nil {
		return settings.Named(&settings.Engine{}, nil, err)
	}
	if in.Phrases, err = vector.NewPhrases(vector.DefaultConfig(), hash); err != nil {
		return err
	}
	view, err := explanation.New(a.ctx, in, c.Options())
	if err != nil {
		return err
	}
	return a.Emit(view, view.Print)
}
