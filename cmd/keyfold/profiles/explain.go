package profiles

import (
	"cmp"
	"errors"
	"fmt"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/profile"
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
	folded := map[profile.AppliedID]bool{}
	for _, id := range in.Profile.Applied.IDs {
		folded[id] = true
	}
	// The profile has the ids of what it folded since then.
	since := max(in.Profile.Applied.Floor, engine.Now()-engine.Millis(a.Config.Processor.IDs.Retention.Milliseconds()))
	damaged, older := 0, 0
	err := a.WithDatabase(func(db *outbox.Database) error {
		for row, err := range db.History(a.Ctx, outbox.Filter{UserID: int32(c.ID)}, outbox.Position{}) {
			if engine.KindOf(err) == engine.Permanent {
				damaged++
				continue
			}
			if err != nil {
				return err
			}
			in.Events = append(in.Events, explanation.Event{Event: row.Event, State: state(&row, since, folded)})
			if len(in.Events) > explanation.MostEvents {
				in.Events, older = in.Events[1:], older+1
			}
		}
		return nil
	})
	switch {
	case err != nil:
		in.Events, in.Note = nil, fmt.Sprintf("no history: %v", err)
	case older > 0:
		in.Note = fmt.Sprintf("only the newest %d events are read: %d older ones are part of the remainder", explanation.MostEvents, older)
	case damaged > 0:
		in.Note = fmt.Sprintf("%d rows of the history hold no event and are left out", damaged)
	}
}

// state says why an event is not in the profile, "" where it is, as far as the row and the
// profile tell: of what was published since an instant, the profile has the ids.
func state(row *outbox.Row, since engine.Millis, folded map[profile.AppliedID]bool) string {
	switch {
	case folded[row.Event.Digest.ID()]:
		return ""
	case !row.Sent:
		return "waiting to be published"
	case cmp.Or(row.SentAt, row.StoredAt) >= since: // another program may not say when it sent it
		return "published, and waiting in a queue or given up"
	}
	return ""
}
