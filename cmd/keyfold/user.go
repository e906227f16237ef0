package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"keyfold/cmd/terminal"
	"keyfold/cmd/users"
)

type userCmd struct {
	Show    showCmd    `cmd:"" help:"Show a user's profile and the nearest products."`
	Export  exportCmd  `cmd:"" help:"Write all profiles as NDJSON documents."`
	Rebuild rebuildCmd `cmd:"" uses:"database,folding,embedding" help:"Recompute profiles from the stored history."`
	Forget  forgetCmd  `cmd:"" uses:"broker,database,retries" help:"Erase a user: profile, stored events, dead letters; later events are dropped."`
}

// showCmd shows one user.
type showCmd struct {
	ID   userID `arg:"" help:"The user's id."`
	Near int    `default:"10" help:"Number of nearest products."`
}

func (c *showCmd) check(a *app) error { return errors.Join(checkNear(c.Near), a.checkStore()) }

// Run prints the user.
func (c *showCmd) Run(a *app) (err error) {
	store, err := openStore(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p, err := users.NewProfileView(a.ctx, store, int32(c.ID), c.Near, nil)
	if err != nil {
		return err
	}
	if p.Profile == nil {
		return fmt.Errorf("user %d has no profile in database %s: no event of this user was folded into it "+
			"(`keyfold dlq list --user %d` shows those that were given up)", c.ID, a.servers.Database, c.ID)
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(p.JSON())
	}
	w := &terminal.Text{W: a.stdout}
	p.Print(w)
	return w.Err
}

// exportCmd writes every profile.
type exportCmd struct {
	File string `arg:"" optional:"" default:"-" help:"Output file; - for stdout."`
}

func (c *exportCmd) check(a *app) error { return a.checkStore() }

// Run writes the profiles, ordered by user_id.
func (c *exportCmd) Run(a *app) (err error) {
	store, err := openStore(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if c.File == "-" {
		return users.Export(a.stdout, store.AllProfiles(a.ctx))
	}
	return users.ExportFile(c.File, store.AllProfiles(a.ctx))
}
