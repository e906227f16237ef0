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

// Show reads a user with the last decisions. It returns nil where nothing is stored.
func Show(ctx context.Context, l ledger.Reader, user string, last int) (*Shown, error) {
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
		Waiting: []Waiting{}, Decisions: []notify.Record{},
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
	for _, d := range u.Waiting {
		w.Line("  waits until %s  %-8s turn %d  (%s)", d.DueAt, d.Type, d.Turn, d.EventID)
	}
	for i := range u.Decisions {
		r := &u.Decisions[i]
		w.Line("  %s  %-5s %-8s %s  (%s)", cli.At(r.DecidedAt.Time()), r.Outcome, r.Type, strings.Join(r.Reasons, ", "), r.EventID)
	}
}
