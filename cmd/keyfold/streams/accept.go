package streams

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/stream/reader"
)

// acceptCmd begins a new epoch of streams that changed.
type acceptCmd struct {
	Stream string `placeholder:"NAME" help:"This stream alone; without it all that changed."`
	DryRun bool   `help:"Show what would be accepted, and change nothing."`
}

// Help is the long text.
func (c *acceptCmd) Help() string {
	return `Workers do not read a stream that was deleted and made anew, or that lost its end (stream_changed): its
offsets are of other events than the marks in profiles are of. Accepted, it is read as a new stream: what was stored after
the last chunk that was read of the earlier one, under marks of its own. Workers may run; they begin within some seconds. Where
nothing has changed, nothing is done. One whose position was lost after it had been accepted is read from its first offset on, under
the marks that profiles have: they know what was read.

An event of the earlier stream that is in the new one too is folded once where its profile still has its id
(IDEMPOTENCY_WINDOW), and twice where it has not: nothing else tells the two apart. What was lost with the earlier stream
before it was folded is in no profile: docs/howto/streams.md says how it is published again.

Examples:
  keyfold streams accept --dry-run
  keyfold streams accept --stream user_event_streams.1-3`
}

// Check judges the servers' addresses.
func (c *acceptCmd) Check(a *app.App) error { return errors.Join(a.CheckBroker(), a.CheckStore()) }

// accepted is what became of a stream.
type accepted struct {
	Stream   string `json:"stream"`
	Changed  bool   `json:"changed"`
	Accepted bool   `json:"accepted"`
	Because  string `json:"because,omitempty"`
	// From is the offset that the stream is read from, Before how many offsets below it are
	// there and count as read.
	From   uint64 `json:"from"`
	Before uint64 `json:"before"`
	Epoch  uint16 `json:"epoch"`
}

// Run accepts.
func (c *acceptCmd) Run(a *app.App) error {
	states, err := reader.Look(a.Ctx, a.StreamsClient(), rabbit.DefaultNames())
	if err != nil {
		return app.BrokerUnreached(err)
	}
	if states, err = c.chosen(states); err != nil {
		return err
	}
	var rows []accepted
	err = a.WithStore(func(store *mongodb.Store) error {
		for _, s := range states {
			row, err := c.accept(a, store, s)
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.Emit(rows, func(w *cli.Text) { c.print(w, rows) })
}

// chosen returns the states of the streams that the command is about.
func (c *acceptCmd) chosen(states []reader.State) ([]reader.State, error) {
	if c.Stream == "" {
		return states, nil
	}
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = s.Stream
	}
	i := slices.Index(names, c.Stream)
	if i < 0 {
		return nil, &cli.UsageError{Err: fmt.Errorf("--stream is %q, and the broker has %s", c.Stream, strings.Join(names, ", "))}
	}
	return states[i : i+1], nil
}

func (c *acceptCmd) accept(a *app.App, store *mongodb.Store, s reader.State) (accepted, error) {
	row := accepted{Stream: s.Stream}
	at, err := store.LoadPosition(a.Ctx, s.Stream)
	if err != nil {
		return row, err
	}
	change, err := reader.Changed(a.Ctx, a.StreamsClient(), rabbit.DefaultNames(), s, at, store.Load)
	if err != nil || change == nil {
		row.From, row.Epoch = at.Offset, at.Epoch.Number
		return row, err
	}
	to := change.To
	row.Changed, row.Because, row.From, row.Epoch = true, change.Cause.Error(), to.Offset, to.Epoch.Number
	row.Before = to.Offset - min(to.Offset, s.First)
	if c.DryRun {
		return row, nil
	}
	err = store.Rewind(a.Ctx, s.Stream, change.Seen, to)
	if errors.Is(err, engine.ErrConflict) {
		return row, nil // another command was faster: its epoch is as good
	}
	row.Accepted = err == nil
	return row, err
}

func (c *acceptCmd) print(w *cli.Text, rows []accepted) {
	changed := false
	for _, r := range rows {
		if !r.Changed {
			continue
		}
		changed = true
		done := "is read"
		switch {
		case c.DryRun:
			done = "would be read"
		case !r.Accepted:
			w.Line("%s: another command has set its position meanwhile; nothing was changed by this one", r.Stream)
			continue
		}
		w.Line("%s changed: %s", r.Stream, r.Because)
		w.Line("  it %s from offset %d on, in epoch %d", done, r.From, r.Epoch)
		if r.Before > 0 {
			w.Line("  the %s below were stored before it changed, and count as read", cli.Count(int64(r.Before), "offset"))
		}
	}
	if !changed {
		w.Line("no stream has changed: nothing was done")
		return
	}
	w.Line("An event that was read of the earlier stream and is in this one too is folded again where its profile has no id of it any more.")
	w.Line("What was lost before it was folded is in no profile: docs/howto/streams.md says how it is published again.")
}
