package app

import "fmt"

// NoProfile says that a user has none.
func (a *App) NoProfile(user int32) error {
	return fmt.Errorf("user %d has no profile in the database %s: events of the last seconds may still wait in a queue or "+
		"for their window; `keyfold failed list --user %d` shows those that were given up", user, a.Servers.Database, user)
}
