package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"keyfold/cmd/terminal"
	"keyfold/cmd/users"
	"keyfold/engine"
)

type userCmd struct {
	Show    showCmd    `cmd:"" help:"Show a user's profile and the nearest products."`
	Export  exportCmd  `cmd:"" help:"Write all profiles as NDJSON documents."`
	Rebuild rebuildCmd `cmd:"" help:"Make profiles anew from the stored history."`
	Forget  forgetCmd  `cmd:"" help:"Erase a user: a tombstone takes the profile's place, later events are dropped."`
}

// showCmd shows one user.
type showCmd struct {
	ID   int32 `arg:"" help:"The user's id."`
	Near int   `default:"10" help:"How many of the nearest products."`
}

// Run prints the user.
func (c *showCmd) Run(a *app) (err error) {
	store, err := openStore(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	p, err := users.NewPortrait(a.ctx, store, c.ID, c.Near, nil)
	if err != nil {
		return err
	}
	if p.Profile == nil {
		return fmt.Errorf("user %d has no profile in database %s", c.ID, a.servers.Database)
	}
	if a.json {
		return json.NewEncoder(a.out).Encode(p.JSON())
	}
	w := &terminal.Text{W: a.out}
	p.Print(w)
	return w.Err
}

// exportCmd writes every profile.
type exportCmd struct {
	File string `arg:"" optional:"" default:"-" help:"Where to; - is standard output."`
}

// Run writes the profiles, ordered by user_id.
func (c *exportCmd) Run(a *app) (err error) {
	store, err := openStore(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if c.File == "-" {
		return users.Export(a.out, store.AllProfiles(a.ctx))
	}
	return users.ExportFile(c.File, store.AllProfiles(a.ctx))
}

// forgetCmd erases a user.
type forgetCmd struct {
	ID int32 `arg:"" help:"The user's id."`
}

// Run writes the tombstone.
func (c *forgetCmd) Run(a *app) (err error) {
	if c.ID < 1 {
		return fmt.Errorf("user id %d: it must be from 1 to 2147483647", c.ID)
	}
	store, err := openStore(a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	before, err := store.Load(a.ctx, []int32{c.ID})
	if err != nil {
		return err
	}
	if err := store.Forget(a.ctx, c.ID, engine.Now()); err != nil {
		return err
	}
	if before[0] == nil {
		fmt.Fprintf(a.out, "user %d had no profile; ", c.ID)
	}
	fmt.Fprintf(a.out, "user %d is erased; events of this user are dropped from now on\n", c.ID)
	return nil
}
