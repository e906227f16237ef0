// Package profiles has the commands about users, products and phrases.
package profiles

import (
	"errors"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/service/profile/users"

	"keyfold/sink/mongodb"
)

// UserCmd looks after profiles.
type UserCmd struct {
	Show    showCmd    `cmd:"" help:"Show a user's profile and the nearest products."`
	Explain explainCmd `cmd:"" uses:"database,folding,embedding" help:"Show which events a profile is made of, and which put each product there."`
	Export  exportCmd  `cmd:"" help:"Write all profiles as NDJSON documents."`
	Convert convertCmd `cmd:"" help:"Write all vectors in the form that EMBEDDING_FORMAT names."`
	Rebuild rebuildCmd `cmd:"" uses:"database,broker,streams,folding,embedding" help:"Recompute profiles from the stored history."`
	Forget  forgetCmd  `cmd:"" uses:"broker,partitions,database,retries" help:"Erase a user: profile, stored events, dead letters; later events are dropped."`
}

// showCmd shows one user.
type showCmd struct {
	ID   cli.UserID `arg:"" help:"The user's id."`
	Near int        `default:"10" help:"Number of nearest products."`
	Mix  float64    `default:"0" placeholder:"SHARE" help:"Nearest to a mix: this share of the second vector (EMBEDDING_SHORT_HALF_LIFE), the rest of the first."`
}

func (c *showCmd) Check(a *app.App) error {
	return errors.Join(cli.CheckNear(c.Near), cli.CheckMix(c.Mix), a.CheckStore())
}

// Run prints the user.
func (c *showCmd) Run(a *app.App) error {
	return a.WithStore(func(store *mongodb.Store) error {
		p, err := users.NewProfileView(a.Ctx, store, int32(c.ID), c.Near, c.Mix, nil)
		if err != nil {
			return err
		}
		if p.Profile == nil {
			return a.NoProfile(int32(c.ID))
		}
		return a.Emit(p.JSON(), p.Print)
	})
}

// exportCmd writes every profile.
type exportCmd struct {
	File string `arg:"" optional:"" default:"-" help:"Output file; - for stdout."`
}

func (c *exportCmd) Check(a *app.App) error { return a.CheckStore() }

// Run writes the profiles, ordered by user_id.
func (c *exportCmd) Run(a *app.App) error {
	return a.WithStore(func(store *mongodb.Store) error {
		if err := store.CheckExists(a.Ctx); err != nil {
			return err
		}
		return users.Export(c.File, a.Streams, store.AllProfiles(a.Ctx))
	})
}
