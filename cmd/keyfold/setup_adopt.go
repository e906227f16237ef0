package main

import (
	"errors"

	"keyfold/cmd/keyfold/app"
	"keyfold/internal/cli"
	"keyfold/source/outbox"
)

// adopt takes over the table that --adopt names; nil without it.
func (c *setupCmd) adopt(a *app.App) (*outbox.Adopted, error) {
	if c.Adopt == "" {
		return nil, nil
	}
	db, err := a.OpenDatabase()
	if err != nil {
		return nil, err
	}
	bar := a.Progress("taking over", 0, nil)
	done, err := db.Adopt(a.Ctx, c.Adopt, outbox.AdoptOptions{Patience: a.SetupPatience(), Backfill: c.Backfill, Progress: func(n int64) { bar.At(int(n)) }})
	bar.Done()
	if err := errors.Join(app.DatabaseUnreached(err), db.Close()); err != nil {
		return nil, err
	}
	return &done, nil
}

func printAdopted(w *cli.Text, done *outbox.Adopted) {
	switch {
	case done == nil:
		return
	case done.Before == 0 && done.Taken == 0:
		w.Line("SQL: %s has nothing left to take over", done.Table)
		return
	}
	w.Line("SQL: %s: %s before, %s after; %s taken over, of which %s are history and %s were published before", done.Table,
		cli.Count(done.Before, "row"), cli.Number(done.After), cli.Number(done.Taken), cli.Number(done.History), cli.Number(done.Duplicates))
	if done.NoEvents > 0 {
		w.Line("SQL: %s: %s without an event, left as they are", done.Table, cli.Count(done.NoEvents, "row"))
	}
}
