package profiles

import (
	"errors"
	"fmt"

	"keyfold/cmd/keyfold/app"
	"keyfold/service/profile/embedding"
	"keyfold/service/profile/explanation"
	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
)

// explainCmd shows what a profile is made of.
type explainCmd struct {
	explanation.Flags `embed:""`
}

// Check judges the flags and the settings. DATABASE_URL may be missing, not wrong.
func (c *explainCmd) Check(a *app.App) error {
	faults := []error{c.CheckFlags(), a.CheckStore(), a.Vectors.Usable()}
	if a.Servers.SQL != "" {
		faults = append(faults, a.CheckDatabase())
	}
	return errors.Join(faults...)
}

// Run prints the explanation.
func (c *explainCmd) Run(a *app.App) error {
	return a.WithStore(func(store *mongodb.Store) error {
		return a.WithEmbedding(a.Vectors, 0, func(way *embedding.Embedding) error { return c.explain(a, store, way) })
	})
}

func (c *explainCmd) explain(a *app.App, store *mongodb.Store, way *embedding.Embedding) error {
	// The profile is read first: what it has folded by then is in the history.
	profiles, err := store.Load(a.Ctx, []int32{int32(c.ID)})
	if err != nil {
		return err
	}
	if profiles[0] == nil {
		return fmt.Errorf("user %d has no profile in the database %s: there is nothing to explain", c.ID, a.Servers.Database)
	}
	in := explanation.Input{Profile: profiles[0], Laws: a.Config.Processor.Config, Store: store, Phrases: patientPhrases{way, a.Log}}
	c.history(a, &in)
	view, err := explanation.New(a.Ctx, in, c.Options())
	if err != nil {
		return err
	}
	return a.Emit(view, view.Print)
}

// history reads the user's newest events. Without a database, or where it is away, the
// explanation says so: all of the profile is remainder.
func (c *explainCmd) history(a *app.App, in *explanation.Input) {
	if a.Servers.SQL == "" {
		in.Note = "no history: DATABASE_URL is not set"
		return
	}
	err := a.WithDatabase(func(db *outbox.Database) (err error) {
		in.Events, in.Note, err = explanation.FromOutbox(a.Ctx, db, int32(c.ID), in.Profile, a.Config.Processor.IDs.Retention)
		return err
	})
	if err != nil {
		in.Events, in.Note = nil, fmt.Sprintf("no history: %v", err)
	}
}
