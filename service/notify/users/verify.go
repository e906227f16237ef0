package users

import (
	"context"
	"fmt"

	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/sink/ledger"
)

// Verified is a user as `user verify` prints it.
type Verified struct {
	UserID      string   `json:"user_id"`
	Version     int64    `json:"version"`
	Erased      bool     `json:"erased"`
	Records     int      `json:"records"`         // that were folded
	Since       string   `json:"since,omitempty"` // the records that count; none: all
	Differences []string `json:"differences"`
}

// Verify compares a user's stored state with the user's records, of which those from before
// kept are no longer stored. It returns nil where nothing is stored.
func Verify(ctx context.Context, l ledger.Reader, user string, kept engine.Millis) (*Verified, error) {
	user, err := ledger.Person(ctx, l, user)
	if err != nil {
		return nil, err
	}
	v, err := ledger.Verify(ctx, l, user, kept)
	if err != nil || v.Version == 0 {
		return nil, err
	}
	u := &Verified{UserID: user, Version: v.Version, Erased: v.Erased, Records: v.Records, Differences: v.Differences}
	if v.Since > 0 {
		u.Since = cli.At(v.Since.Time())
	}
	if u.Differences == nil {
		u.Differences = []string{}
	}
	return u, nil
}

// Print prints what was found.
func (u *Verified) Print(w *cli.Text) {
	since := ""
	if u.Since != "" {
		since = " since " + u.Since
	}
	switch {
	case len(u.Differences) > 0:
		w.Line("user %s: the stored state is not what %s%s come to:", cli.Printable(u.UserID), cli.Count(int64(u.Records), "record"), since)
		for _, d := range u.Differences {
			w.Line("  %s", d)
		}
	case u.Erased:
		w.Line("user %s is erased, and no decision or deferral names the user", cli.Printable(u.UserID))
	default:
		w.Line("user %s: the stored state is what %s%s come to", cli.Printable(u.UserID), cli.Count(int64(u.Records), "record"), since)
	}
}

// Fault returns the error of a user whose state differs, nil of another one.
func (u *Verified) Fault() error {
	if len(u.Differences) == 0 {
		return nil
	}
	return fmt.Errorf("state and records of user %s differ in %s: decisions were made with a state that the records do not explain; "+
		"see whether a backup was restored in part, or rows were changed by hand", cli.Printable(u.UserID), cli.Count(int64(len(u.Differences)), "place"))
}
