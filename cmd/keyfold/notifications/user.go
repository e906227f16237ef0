package notifications

import (
	"errors"
	"fmt"

	"keyfold/cmd/cli"
	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/notifier/api"
	"keyfold/cmd/notifier/users"
	"keyfold/sink/ledger/postgres"
)

// userCmd looks after users.
type userCmd struct {
	Show   userShowCmd   `cmd:"" help:"Show a user's preferences, what waits, and the last decisions. Read-only."`
	Set    userSetCmd    `cmd:"" help:"Replace a user's preferences."`
	Forget userForgetCmd `cmd:"" help:"Erase a user: preferences, state, waiting notifications, texts of decisions."`
	Verify userVerifyCmd `cmd:"" help:"Compare a user's stored state with the user's decisions. Read-only."`
}

// userShowCmd shows one user.
type userShowCmd struct {
	ID   string `arg:"" help:"The user's id."`
	Last int    `default:"10" help:"Number of last decisions."`
}

// Help is the long text.
func (c *userShowCmd) Help() string {
	return `No text of a notification is shown.

Examples:
  keyfold notify user show anna
  keyfold notify user show anna --last 100 -o json`
}

func (c *userShowCmd) Check(a *app.App) error {
	var fault error
	if c.Last < 0 {
		fault = errors.New("--last must be at least 0")
	}
	return errors.Join(api.CheckUser(c.ID), fault, a.CheckLedger())
}

// Run prints the user.
func (c *userShowCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		shown, err := users.Show(a.Ctx, l, c.ID, c.Last)
		if err != nil {
			return err
		}
		if shown == nil {
			return noSuchUser(c.ID)
		}
		return a.Emit(shown, shown.Print)
	})
}

func noSuchUser(id string) error {
	return fmt.Errorf("nothing is stored of user %s: is the id right? Events of the last seconds may still wait in a queue", cli.Printable(id))
}

// userSetCmd replaces preferences.
type userSetCmd struct {
	ID          string `arg:"" help:"The user's id."`
	Preferences string `arg:"" help:"JSON object with zone, quiet, muted, channels and caps, all optional; {} for none."`
}

// Help is the long text.
func (c *userSetCmd) Help() string {
	return `All of the user's preferences are replaced: what is left out is none. A decision that is being made
with the former ones is not written, and made again. The preferences of a user who was erased are not kept.

  zone      a name such as Europe/Berlin; without one metadata.timezone counts, then NOTIFY_ZONE
  quiet     spans of local time; days are those on which a span begins, none: all days
  muted     types that are never sent; SECURITY cannot be muted
  channels  push, email, sms, in_app that are allowed, none: all
  caps      for 5 minutes, 1 hour and 24 hours; 0 is the set's

Examples:
  keyfold notify user set anna '{"zone":"Europe/Berlin","quiet":[{"from":"22:00","to":"07:00","days":["mon","fri"]}]}'
  keyfold notify user set anna '{"muted":["PROMO"],"channels":["push","in_app"],"caps":[2,4,10]}'
  keyfold notify user set anna '{}'`
}

func (c *userSetCmd) Check(a *app.App) error {
	_, _, err := api.ParsePreferences([]byte(c.Preferences))
	return errors.Join(api.CheckUser(c.ID), err, a.CheckLedger())
}

// Run stores them.
func (c *userSetCmd) Run(a *app.App) error {
	own, _, err := api.ParsePreferences([]byte(c.Preferences))
	if err != nil {
		return err
	}
	return a.WithLedger(func(l *postgres.Ledger) error {
		if err := l.SetPreferences(a.Ctx, c.ID, own); err != nil {
			return err
		}
		return a.Emit(map[string]any{"user_id": c.ID, "preferences": own}, func(w *cli.Text) {
			w.Line("the preferences of user %s are stored", cli.Printable(c.ID))
		})
	})
}

// userVerifyCmd compares a user's state with the user's records.
type userVerifyCmd struct {
	ID string `arg:"" help:"The user's id."`
}

// Help is the long text.
func (c *userVerifyCmd) Help() string {
	return `The user's records of the last 7 days are folded anew, and what they come to is compared with the stored
state: sends, last sends by type, and what is remembered against duplicates. Records of days that retention
has dropped do not count. Decisions may be made meanwhile. Of an erased user it looks for what is left.
Exit code 1 when they differ.

Example:
  keyfold notify user verify anna`
}

func (c *userVerifyCmd) Check(a *app.App) error {
	return errors.Join(api.CheckUser(c.ID), a.CheckLedger())
}

// Run prints what differs.
func (c *userVerifyCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		kept, err := l.OldestDay(a.Ctx)
		if err != nil {
			return err
		}
		verified, err := users.Verify(a.Ctx, l, c.ID, kept)
		if err != nil {
			return err
		}
		if verified == nil {
			return noSuchUser(c.ID)
		}
		return errors.Join(a.Emit(verified, verified.Print), verified.Fault())
	})
}
