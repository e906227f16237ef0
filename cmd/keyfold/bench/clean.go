package bench

import (
	"fmt"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit/deadletter"
)

// cleaned is what was erased, or with DryRun would be.
type cleaned struct {
	DryRun  bool  `json:"dry_run"`
	Users   int64 `json:"users_erased"`
	Letters int64 `json:"dead_letters_discarded"`
}

// clean erases the users of measurements, as `keyfold user forget` does. Their events have no
// rows.
func (c *Cmd) clean(a *app.App, store *mongodb.Store) error {
	var users []int32
	for p, err := range store.ProfilesAbove(a.Ctx, firstUser-1) {
		if err != nil {
			return err
		}
		if !p.Erased() && ours(p) {
			users = append(users, p.UserID)
		}
	}
	done := cleaned{DryRun: c.DryRun, Users: int64(len(users))}
	if !c.DryRun {
		if err := a.Confirm(c.Confirmation, fmt.Sprintf("Erase %s of measurements? There is no way back.", cli.Count(done.Users, "user"))); err != nil {
			return err
		}
		for _, user := range users {
			if err := store.Forget(a.Ctx, user, engine.Now()); err != nil {
				return err
			}
		}
	}
	err := eachLetter(a, func(s *deadletter.Scan, l *deadletter.Letter) error {
		done.Letters++
		if c.DryRun {
			return nil
		}
		return s.Remove(l)
	})
	if err != nil {
		return err
	}
	return a.Emit(done, func(w *cli.Text) {
		w.Line("%s %s; %s %s", cli.Count(done.Users, "user"), c.Done("erased"), cli.Count(done.Letters, "dead letter"), c.Done("discarded"))
	})
}

// ours reports whether a measurement wrote the profile.
func ours(p *profile.Profile) bool { return strings.HasPrefix(p.LastID, ids) }
