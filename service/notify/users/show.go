package users

import (
	"context"
	"strings"

	"keyfold/engine/notify"
	"keyfold/internal/cli"
	"keyfold/sink/ledger"
)

// Shown is a user as `user show` prints it.
type Shown struct {
	UserID      string             `json:"user_id"`
	Named       string             `json:"alias,omitempty"` // the id that was asked for, where it is an alias
	Aliases     []string           `json:"aliases"`
	Version     int64              `json:"version"`
	Erased      bool               `json:"erased"`
	Preferences notify.Preferences `json:"preferences"`
	Waiting     []Waiting          `json:"waiting"`   // the next due first
	Decisions   []notify.Record    `json:"decisions"` // newest first
}

// Waiting is a notification that waits for its time.
type Waiting struct {
	EventID string `json:"event_id"`
	Type    string `json:"event_type"`
	Turn    int    `json:"turn"`
	DueAt   string `json:"due_at"`
}

// Reader reads what is stored of users and their aliases.
type Reader interface {
	ledger.Reader
	Aliases(ctx context.Context, user string) ([]notify.Alias, error)
}

// Show reads a user with the last decisions, of an alias the user that it stands for. It returns
// nil where nothing is stored.
func Show(ctx context.Context, l Reader, user string, last int) (*Shown, error) {
	named := user
	user, err := ledger.Person(ctx, l, user)
	if err != nil {
		return nil, err
	}
	standings, err := l.Load(ctx, []notify.Ask{{User: user, Deferrals: true}})
	if err != nil {
		return nil, err
	}
	s := &standings[0]
	if s.Version == 0 {
		return nil, nil
	}
	u := &Shown{
		UserID: user, Version: s.Version, Erased: s.State != nil && s.State.Erased, Preferences: s.Preferences,
		Waiting: []Waiting{}, Decisions: []notify.Record{}, Aliases: []string{},
	}
	if named != user {
		u.Named = named
	}
	aliases, err := l.Aliases(ctx, user)
	if err != nil {
		return nil, err
	}
	for _, a := range aliases {
		u.Aliases = append(u.Aliases, a.ID)
	}
	for i := range s.Deferred {
		d := &s.Deferred[i]
		u.Waiting = append(u.Waiting, Waiting{d.Event.ID.String(), d.Event.Type.String(), d.Turn.Number, cli.At(d.DueAt.Time())})
	}
	if last > 0 {
		for d, err := range l.Records(ctx, ledger.Filter{User: user, Limit: last}) {
			if err != nil {
				return nil, err
			}
			u.Decisions = append(u.Decisions, d.Record)
		}
	}
	return u, nil
}

// Print prints the user. No text of a notification is shown.
func (u *Shown) Print(w *cli.Text) {
	if u.Named != "" {
		w.Line("%s is an alias", cli.Printable(u.Named))
	}
	w.Line("user %s", cli.Printable(u.UserID))
	if len(u.Aliases) > 0 {
		w.Line("  aliases      %s", cli.Printable(strings.Join(u.Aliases, ", ")))
	}
	if u.Erased {
		w.Line("  erased: later notifications are not sent")
	}
	text, err := u.Preferences.MarshalJSON()
	if err != nil {
		w.Err = err
		return
	}
	w.Line("  preferences  %s", text)
	for _, d := range u.Waiting {
		w.Line("  waits until %s  %-8s turn %d  (%s)", d.DueAt, d.Type, d.Turn, d.EventID)
	}
	for i := range u.Decisions {
		r := &u.Decisions[i]
		w.Line("  %s  %-5s %-8s %s  (%s)", cli.At(r.DecidedAt.Time()), r.Outcome, r.Type, strings.Join(r.Reasons, ", "), r.EventID)
	}
}
