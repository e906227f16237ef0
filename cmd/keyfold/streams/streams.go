// Package streams has the commands about the streams that workers read.
package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/service/status"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/stream"
	"keyfold/source/stream/reader"
)

// Cmd is about the streams that workers read.
type Cmd struct {
	List   listCmd   `cmd:"" help:"Show the streams: what they hold, and how far workers have read them."`
	Rewind rewindCmd `cmd:"" help:"Have workers read streams again; no profile changes by what it has already."`
	Accept acceptCmd `cmd:"" help:"Have workers read streams that were made anew, or lost their end, as new ones."`
}

// listCmd shows streams.
type listCmd struct{}

// Help is the long text.
func (c *listCmd) Help() string {
	return `A position is where the reading of a stream would begin again: all events below it are settled, in
the profiles of MONGODB_DATABASE. It is stored every 5 s. The lag is what lies above it, events that workers have in hand
included, and since when the oldest of them has been in the stream.

Examples:
  keyfold streams list
  keyfold streams list -o json`
}

func (c *listCmd) Check(a *app.App) error { return errors.Join(a.CheckBroker(), a.CheckStore()) }

// Run lists.
func (c *listCmd) Run(a *app.App) error {
	rows, err := Look(a)
	if err != nil {
		return err
	}
	return a.Emit(rows, func(w *cli.Text) { printStreams(w, rows) })
}

// Look asks the broker for its streams and the store for the positions.
func Look(a *app.App) ([]status.Stream, error) {
	states, err := reader.Look(a.Ctx, a.StreamsClient(), rabbit.DefaultNames())
	if err != nil {
		return nil, app.BrokerUnreached(err)
	}
	rows := make([]status.Stream, len(states))
	err = a.WithStore(func(store *mongodb.Store) error {
		for i, s := range states {
			at, err := store.LoadPosition(a.Ctx, s.Stream)
			if err != nil {
				return err
			}
			rows[i] = listed(s, at, engine.Now())
		}
		return nil
	})
	return rows, err
}

// listed joins what the broker has with what is settled.
func listed(s reader.State, at profile.Position, now engine.Millis) status.Stream {
	row := status.Stream{Stream: s.Stream, First: s.First, End: s.End, Oldest: s.Oldest, Position: at.Offset, Rewinds: at.Rewinds}
	switch {
	case at.Offset > s.End:
		row.Fault = "the position is beyond the end: the stream was made anew, or lost its end: keyfold streams accept"
	case at.Offset < s.First:
		row.Fault = fmt.Sprintf("%s are gone before they were read", cli.Count(int64(s.First-at.Offset), "event"))
	}
	if from := max(at.Offset, at.Epoch.From, s.First); from < s.End {
		row.Lag = s.End - from
		since := s.Oldest
		if at.Offset >= s.First && at.Chunk.Timestamp != 0 {
			since = at.Chunk.Timestamp
		}
		row.Behind = float64(max(0, now-since)) / 1000
	}
	return row
}

func printStreams(w *cli.Text, rows []status.Stream) {
	table := make([][]string, len(rows))
	for i, r := range rows {
		behind := "-"
		if r.Lag > 0 {
			behind = (time.Duration(r.Behind*1000) * time.Millisecond).Round(time.Second).String()
		}
		table[i] = []string{r.Stream, cli.Number(int64(r.First)), cli.Number(int64(r.End)), cli.Number(int64(r.Position)), cli.Number(int64(r.Lag)), behind}
	}
	w.Table([]string{"stream", "first", "end", "position", "lag", "behind"}, table)
	for _, r := range rows {
		if r.Fault != "" {
			w.Line("%s: %s", r.Stream, r.Fault)
		}
	}
}

// rewindCmd sets positions back.
type rewindCmd struct {
	To    string `placeholder:"TIME" help:"Read what the broker has stored since then: a span back from now, such as 3h, or a time such as 2026-02-10T15:00:00Z."`
	First bool   `help:"Read all that the streams hold."`
}

// Help is the long text.
func (c *rewindCmd) Help() string {
	return `After MongoDB was restored from a backup, what its profiles lack is read again: their marks came back
with them. Workers may run; they begin again within some seconds. Events that a profile has are recognised by its marks,
however often they are read.

Examples:
  keyfold streams rewind --to 3h
  keyfold streams rewind --first`
}

// Check judges the time.
func (c *rewindCmd) Check(a *app.App) error {
	_, err := c.since(time.Now())
	return errors.Join(a.CheckBroker(), a.CheckStore(), err)
}

// since returns the time to read from, 0 for all.
func (c *rewindCmd) since(now time.Time) (engine.Millis, error) {
	switch {
	case c.First == (c.To != ""):
		return 0, errors.New("say where to read from: --to TIME, or --first")
	case c.First:
		return 0, nil
	}
	var back cli.Span
	if back.UnmarshalText([]byte(c.To)) == nil {
		return engine.MillisOf(now.Add(-time.Duration(back))), nil
	}
	at, err := engine.ParseTimestamp([]byte(c.To))
	if err != nil {
		return 0, fmt.Errorf("--to is %q: it must be a span such as 3h, or a time such as 2026-02-10T15:00:00Z", c.To)
	}
	return at, nil
}

// rewound is what became of a stream.
type rewound struct {
	Stream   string `json:"stream"`
	Position uint64 `json:"position"`
}

// Run sets the positions back.
func (c *rewindCmd) Run(a *app.App) error {
	since, err := c.since(time.Now())
	if err != nil {
		return err
	}
	client, names := a.StreamsClient(), rabbit.DefaultNames()
	states, err := reader.Look(a.Ctx, client, names)
	if err != nil {
		return app.BrokerUnreached(err)
	}
	var done []rewound
	err = a.WithStore(func(store *mongodb.Store) error {
		for _, s := range states {
			to, err := positionSince(a.Ctx, client, s, since)
			if err != nil {
				return err
			}
			before, err := store.LoadPosition(a.Ctx, s.Stream)
			if err == nil && to.Offset < before.Offset {
				to.Epoch = before.Epoch
				err = store.Rewind(a.Ctx, s.Stream, before, to)
				done = append(done, rewound{s.Stream, max(to.Offset, to.Epoch.From)})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.Emit(done, func(w *cli.Text) {
		for _, r := range done {
			w.Line("%s is read again from offset %d on", r.Stream, r.Position)
		}
		if len(done) == 0 {
			w.Line("no position lies behind that: nothing was changed")
		}
	})
}

// positionSince returns where a stream has what was stored since then; 0: all.
func positionSince(ctx context.Context, client stream.Config, s reader.State, since engine.Millis) (profile.Position, error) {
	if since == 0 || s.End == 0 {
		return profile.Position{}, nil
	}
	if since > s.Newest {
		return profile.Position{Offset: s.End}, nil
	}
	return reader.PositionAt(ctx, client, s.Stream, since)
}
