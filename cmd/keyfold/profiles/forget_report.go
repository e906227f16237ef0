package profiles

import (
	"fmt"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
)

// unknown is the error for a user of whom nothing is stored: the id may be mistyped.
func (f *forgotten) unknown(a *app.App) error {
	rows := "no row and no archived letter in DATABASE_URL"
	switch {
	case a.Servers.SQL == "":
		rows = "no row (DATABASE_URL is not set)"
	case f.Interactions == nil:
		rows = "DATABASE_URL was not reached"
	}
	letters := "no dead letter"
	if f.DeadLetters == nil {
		letters = "the dead letters were not reached"
	}
	return fmt.Errorf("user %d is not erased: there is no profile in the database %s, %s, %s: is the id right? "+
		"--even-if-unknown erases the user all the same, and workers drop the events that come later",
		f.UserID, a.Servers.Database, rows, letters)
}

// question asks for what was found.
func (f *forgotten) question() string {
	stored := quantity(f.Interactions, "stored interaction") + ", " + quantity(f.DeadLetters, "dead letter")
	if f.Archived != nil && *f.Archived > 0 {
		stored += ", " + cli.Count(*f.Archived, "archived letter")
	}
	switch {
	case f.before.Erased():
		return fmt.Sprintf("User %d was erased at %s. Erase what came since (%s)?", f.UserID, cli.At(f.before.ErasedAt.Time()), stored)
	case f.before != nil:
		stored = "a profile of " + cli.Count(f.before.EventCount, "event") + ", " + stored
	case f.damaged:
		stored = "a profile that cannot be read, " + stored
	default:
		stored = "no profile, " + stored
	}
	return fmt.Sprintf("Erase user %d (%s)? There is no way back.", f.UserID, stored)
}

func (f *forgotten) emit(a *app.App) error {
	return a.Emit(f, func(w *cli.Text) { f.print(w, a.Servers.SQL != "") })
}

func (f *forgotten) print(w *cli.Text, stored bool) {
	flags := cli.Confirmation{DryRun: f.DryRun}
	if f.DryRun {
		w.Line("user %d would be erased; events of this user would be dropped from then on", f.UserID)
	} else {
		w.Line("user %d is erased; events of this user are dropped from now on", f.UserID)
	}
	profile := f.Profile
	if f.before.Erased() {
		profile = "was erased at " + cli.At(f.before.ErasedAt.Time())
	} else if f.before != nil {
		profile += ": " + cli.Count(f.before.EventCount, "event")
	}
	w.Line("  profile              %s", profile)
	rows, archived := "not looked at: DATABASE_URL is not set", "not looked at: DATABASE_URL is not set"
	if stored {
		rows, archived = counted(f.Interactions, flags.Done("deleted")), counted(f.Archived, flags.Done("deleted"))
	}
	w.Line("  stored interactions  %s", rows)
	w.Line("  archived letters     %s%s", archived, unread(f.ArchivedLeft))
	w.Line("  dead letters         %s%s", counted(f.DeadLetters, flags.Done("discarded")), unread(f.Unreadable))
	queued := "not reached"
	if len(f.Queued) > 0 {
		var waiting int64
		for _, n := range f.Queued {
			waiting += int64(n)
		}
		queued = cli.Number(waiting) + " of all users"
	}
	w.Line("  queued messages      %s; workers drop those of user %d as they come", queued, f.UserID)
	if !f.DryRun {
		w.Line("run it again once the queues were empty; keyfold user forget --help tells of logs and backups")
	}
}

// unread says how many letters stay that may be of any user.
func unread(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; %s in which no user can be read stay", cli.Number(n))
}

// counted says how many, or that it is not known.
func counted(n *int64, done string) string {
	if n == nil {
		return "not reached"
	}
	return cli.Number(*n) + " " + done
}

// quantity says how many there are, or that it is not known.
func quantity(n *int64, noun string) string {
	if n == nil {
		return noun + "s not looked at"
	}
	return cli.Count(*n, noun)
}
