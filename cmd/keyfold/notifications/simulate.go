package notifications

import (
	"keyfold/cmd/decisions"
	"keyfold/cmd/keyfold/app"
)

// simulateCmd decides past notifications anew.
type simulateCmd struct {
	decisions.Simulation[*app.App] `embed:""`
}

func (c *simulateCmd) Check(a *app.App) error { return c.CheckWith(a, &a.Notify.Hours) }

// Run prints what would change.
func (c *simulateCmd) Run(a *app.App) error { return c.RunWith(a, &a.Notify.Hours) }
