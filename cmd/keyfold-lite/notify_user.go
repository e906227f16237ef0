package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"keyfold/cmd/cli"
	"keyfold/cmd/notifier/api"
	"keyfold/cmd/notifier/users"
	"keyfold/engine"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/sqlite"
	"keyfold/sink/sqlfile"
)

type notifyUserCmd struct {
	Show   notifyShowCmd   `cmd:"" help:"Show a user's preferences and last decisions."`
	Set    notifySetCmd    `cmd:"" help:"Replace a user's preferences."`
	Forget notifyForgetCmd `cmd:"" help:"Erase a user: preferences, state, waiting notifications, texts of decisions."`
	Verify notifyVerifyCmd `cmd:"" help:"Compare a user's stored state with the user's decisions. Read-only."`
}

// notifyShowCmd shows a user.
type notifyShowCmd struct {
	ID   string `arg:"" help:"The user's id."`
	Last int    `default:"10" help:"Number of last decisions."`
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
	shown, err := users.Show(a.ctx, file, c.ID, c.Last)
	if err != nil {
		return err
	}
	if shown == nil {
		return noSuchUser(a, c.ID)
	}
	return a.Emit(shown, shown.Print)
}

func noSuchUser(a *app, id string) error {
	return fmt.Errorf("nothing is stored of user %s in %s", cli.Printable(id), a.data)
}

// notifyVerifyCmd compares a user's state with the user's decisions.
type notifyVerifyCmd struct {
	ID string `arg:"" help:"The user's id."`
}

// Check refuses an id that no user has.
func (c *notifyVerifyCmd) Check(*app) error { return api.CheckUser(c.ID) }

// Run prints what differs; it fails where something does.
func (c *notifyVerifyCmd) Run(a *app) error {
	file, err := openDecisions(a)
	if err != nil {
		return err
	}
	defer file.Close()
	verified, err := users.Verify(a.ctx, file, c.ID, 0)
	if err != nil {
		return err
	}
	if verified == nil {
		return noSuchUser(a, c.ID)
	}
	return errors.Join(a.Emit(verified, verified.Print), verified.Fault())
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
