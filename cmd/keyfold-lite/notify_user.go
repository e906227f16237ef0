package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"keyfold/cmd/cli"
	"keyfold/cmd/notifier/api"
	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/sqlite"
	"keyfold/sink/sqlfile"
)

type notifyUserCmd struct {
	Show   notifyShowCmd   `cmd:"" help:"Show a user's preferences and last decisions."`
	Set    notifySetCmd    `cmd:"" help:"Replace a user's preferences."`
	Forget notifyForgetCmd `cmd:"" help:"Erase a user: preferences, state, waiting notifications, texts of decisions."`
}

// notifyShowCmd shows a user.
type notifyShowCmd struct {
	ID   string `arg:"" help:"The user's id."`
	Last int    `default:"10" help:"Number of last decisions."`
}

// shownUser is a user in JSON.
type shownUser struct {
	UserID      string             `json:"user_id"`
	Version     int64              `json:"version"`
	Erased      bool               `json:"erased"`
	Preferences notify.Preferences `json:"preferences"`
	Decisions   []notify.Record    `json:"decisions"` // newest first
}

// Check refuses an id that no user has.
func (c *notifyShowCmd) Check(*app) error {
	if c.Last < 0 {
		return errors.Join(api.CheckUser(c.ID), errors.New("--last must be at least 0"))
	}
	return api.CheckUser(c.ID)
}

// Run prints the user.
func (c *notifyShowCmd) Run(a *app) error {
	file, err := openDecisions(a)
	if err != nil {
		return err
	}
	defer file.Close()
	standings, err := file.Load(a.ctx, []notify.Ask{{User: c.ID}})
	if err != nil {
		return err
	}
	s := &standings[0]
	if s.Version == 0 {
		return fmt.Errorf("nothing is stored of user %s in %s", cli.Printable(c.ID), a.data)
	}
	shown := shownUser{UserID: c.ID, Version: s.Version, Erased: s.State != nil && s.State.Erased, Preferences: s.Preferences, Decisions: []notify.Record{}}
	if c.Last > 0 {
		for d, err := range file.Records(a.ctx, ledger.Filter{User: c.ID, Limit: c.Last}) {
			if err != nil {
				return err
			}
			shown.Decisions = append(shown.Decisions, d.Record)
		}
	}
	return a.Emit(shown, shown.print)
}

func (u *shownUser) print(w *cli.Text) {
	w.Line("user %s", cli.Printable(u.UserID))
	if u.Erased {
		w.Line("  erased: later notifications are not sent")
	}
	text, err := u.Preferences.MarshalJSON()
	if err != nil {
		w.Err = err
		return
	}
	w.Line("  preferences  %s", text)
	for i := range u.Decisions {
		r := &u.Decisions[i]
		w.Line("  %s  %-5s %-8s %s  (%s)", cli.At(r.DecidedAt.Time()), r.Outcome, r.Type, strings.Join(r.Reasons, ", "), r.EventID)
	}
}

// notifySetCmd replaces preferences.
type notifySetCmd struct {
	ID          string `arg:"" help:"The user's id."`
	Preferences string `arg:"" help:"JSON, such as {\"zone\":\"Europe/Berlin\",\"quiet\":[{\"from\":\"22:00\",\"to\":\"07:00\"}],\"muted\":[\"PROMO\"]}; {} for none."`
}

// Check refuses preferences that cannot be kept.
func (c *notifySetCmd) Check(*app) error {
	_, _, err := api.ParsePreferences([]byte(c.Preferences))
	return errors.Join(api.CheckUser(c.ID), err)
}

// Run stores them.
func (c *notifySetCmd) Run(a *app) (err error) {
	own, _, err := api.ParsePreferences([]byte(c.Preferences))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.data, 0o750); err != nil {
		return err
	}
	file, err := sqlite.Open(filepath.Join(a.data, ledgerName))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.SetPreferences(a.ctx, c.ID, own); err != nil {
		return err
	}
	return a.Emit(map[string]any{"user_id": c.ID, "preferences": own}, func(w *cli.Text) {
		w.Line("the preferences of user %s are stored", cli.Printable(c.ID))
	})
}

// notifyForgetCmd erases a user.
type notifyForgetCmd struct {
	ID           string           `arg:"" help:"The user's id."`
	Confirmation cli.Confirmation `embed:""`
}

// Check refuses an id that no user has.
func (c *notifyForgetCmd) Check(*app) error { return api.CheckUser(c.ID) }

// Run erases the user.
func (c *notifyForgetCmd) Run(a *app) error {
	reader, err := openDecisions(a)
	if err != nil {
		return err
	}
	decisions, err := countDecisions(a, reader, c.ID)
	if err := errors.Join(err, reader.Close()); err != nil {
		return err
	}
	unlock, err := lockFolder(a.data)
	if err != nil {
		return err
	}
	defer unlock()
	answer := map[string]any{"user_id": c.ID, "erased": !c.Confirmation.DryRun, "decisions": decisions}
	told := func(w *cli.Text) {
		w.Line("user %s: preferences, state and the texts of %s %s", cli.Printable(c.ID), cli.Count(decisions, "decision"), c.Confirmation.Done("erased"))
		if !c.Confirmation.DryRun {
			w.Line("notifications for this user are not sent from now on")
		}
	}
	if c.Confirmation.DryRun {
		return a.Emit(answer, told)
	}
	if err := a.Confirm(c.Confirmation, fmt.Sprintf("Erase user %s from %s (%s)? There is no way back.", cli.Printable(c.ID), a.data, cli.Count(decisions, "decision"))); err != nil {
		return err
	}
	path := filepath.Join(a.data, ledgerName)
	file, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Forget(a.ctx, c.ID, engine.Now()), file.Close()); err != nil {
		return err
	}
	if err := sqlfile.Rewrite(a.ctx, path); err != nil {
		return fmt.Errorf("the user is erased, but what was deleted may still be read in the file: %w; run it again", err)
	}
	return a.Emit(answer, told)
}

// countDecisions counts what is stored of a user.
func countDecisions(a *app, file *sqlite.Reader, user string) (n int64, err error) {
	for _, err := range file.Records(a.ctx, ledger.Filter{User: user}) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
