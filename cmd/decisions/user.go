package decisions

import (
	"errors"
	"fmt"

	"keyfold/internal/cli"
	"keyfold/service/notify/preference"
	"keyfold/service/notify/users"
	"keyfold/sink/ledger"
)

// User looks after users.
type User[P Program] struct {
	Show   show[P]   `cmd:"" help:"Show a user's preferences, what waits, and the last decisions. Read-only."`
	Set    set[P]    `cmd:"" help:"Replace a user's preferences."`
	Import intake[P] `cmd:"" help:"Store the preferences of many users."`
	Merge  merge[P]  `cmd:"" help:"Make two ids of one person one user."`
	Forget forget[P] `cmd:"" help:"Erase a user: preferences, state, waiting notifications, texts of decisions."`
	Verify verify[P] `cmd:"" help:"Compare a user's stored state with the user's decisions. Read-only."`
}

// show shows one user.
type show[P Program] struct {
	ID   string `arg:"" help:"The user's id."`
	Last int    `default:"10" help:"Number of last decisions."`
}

// Help is the long text.
func (c *show[P]) Help() string {
	return fmt.Sprintf(`No text of a notification is shown.

Examples:
  %[1]s user show anna
  %[1]s user show anna --last 100 -o json`, textsOf[P]().Command)
}

func (c *show[P]) Check(p P) error {
	var fault error
	if c.Last < 0 {
		fault = errors.New("--last must be at least 0")
	}
	return errors.Join(preference.CheckUser(c.ID), fault, p.CheckLedger())
}

// Run prints the user.
func (c *show[P]) Run(p P) error {
	return p.ReadLedger(func(l Ledger) error {
		shown, err := users.Show(p.Context(), l, c.ID, c.Last)
		if err != nil {
			return err
		}
		if shown == nil {
			return p.UnknownUser(c.ID)
		}
		return p.Emit(shown, shown.Print)
	})
}

// set replaces preferences.
type set[P Program] struct {
	ID          string `arg:"" help:"The user's id."`
	Preferences string `arg:"" help:"JSON object with zone, quiet, topics and others, all optional; {} for none."`
}

// Help is the long text.
func (c *set[P]) Help() string {
	return fmt.Sprintf(`All of the user's preferences are replaced: what is left out is none, but attributes, which stay where they are not
named. A decision that is being made with the former ones is not written, and made again. The preferences of a user
who was erased are not kept.

  zone           a name such as Europe/Berlin; without one metadata.timezone counts, then NOTIFY_ZONE
  quiet          spans of local time; days are those on which a span begins, none: all days
  muted          types that are never sent; SECURITY cannot be muted
  channels       push, email, sms, in_app that are allowed, none: all
  caps           for 5 minutes, 1 hour and 24 hours; 0 is the set's
  topics         of the set: which channels are on, off or digest, and until when a topic is muted or snoozed
  digests        local times of digests, none: NOTIFY_DIGEST_TIMES
  paused         true: nothing is sent
  muted_until    nothing is sent before
  snoozed_until  what comes before waits until then
  attributes     what rules can ask for as user.NAME

Examples:
  %[1]s user set anna '{"zone":"Europe/Berlin","quiet":[{"from":"22:00","to":"07:00","days":["mon","fri"]}]}'
  %[1]s user set anna '{"topics":{"offers":{"channels":{"push":"off","email":"digest"}}},"digests":["18:00"]}'
  %[1]s user set anna '{"muted":["PROMO"],"channels":["push","in_app"],"caps":[2,4,10]}'
  %[1]s user set anna '{}'`, textsOf[P]().Command)
}

func (c *set[P]) Check(p P) error {
	_, _, err := preference.Parse([]byte(c.Preferences))
	return errors.Join(preference.CheckUser(c.ID), err, p.CheckLedger())
}

// Run stores them.
func (c *set[P]) Run(p P) error {
	own, members, err := preference.Parse([]byte(c.Preferences))
	if err != nil {
		return err
	}
	var stored ledger.Preferences
	if err := p.ChangePreferences(func(s preference.Store) (err error) {
		stored, err = preference.Change(p.Context(), preference.Follow(s), c.ID, ledger.AnyVersion, preference.Replacement(own, members))
		return err
	}); err != nil {
		return err
	}
	return p.Emit(map[string]any{"user_id": c.ID, "version": stored.Version, "preferences": stored.Own}, func(w *cli.Text) {
		w.Line("the preferences of user %s are stored", cli.Printable(c.ID))
	})
}

// verify compares a user's state with the user's records.
type verify[P Program] struct {
	ID string `arg:"" help:"The user's id."`
}

// Help is the long text.
func (c *verify[P]) Help() string {
	return fmt.Sprintf(`The user's records of the last 7 days are folded anew, and what they come to is compared with the stored
state: sends, last sends by type, and what is remembered against duplicates. Records of days that retention
has dropped do not count. Decisions may be made meanwhile. Of an erased user it looks for what is left.
Exit code 1 when they differ.

Example:
  %s user verify anna`, textsOf[P]().Command)
}

func (c *verify[P]) Check(p P) error { return errors.Join(preference.CheckUser(c.ID), p.CheckLedger()) }

// Run prints what differs.
func (c *verify[P]) Run(p P) error {
	return p.ReadLedger(func(l Ledger) error {
		kept, err := l.OldestDay(p.Context())
		if err != nil {
			return err
		}
		verified, err := users.Verify(p.Context(), l, c.ID, kept)
		if err != nil {
			return err
		}
		if verified == nil {
			return p.UnknownUser(c.ID)
		}
		return errors.Join(p.Emit(verified, verified.Print), verified.Fault())
	})
}
