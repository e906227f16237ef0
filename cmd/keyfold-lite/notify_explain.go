package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"keyfold/internal/cli"
	"keyfold/service/notify/api"

	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/sqlite"
)

// notifyExplainCmd explains decisions.
type notifyExplainCmd struct {
	ID     string `arg:"" help:"An event_id or a decision_id, or its beginning."`
	Stages bool   `help:"Show also what each stage saw."`
}

// Run prints all turns of an event, or the one decision that was named.
func (c *notifyExplainCmd) Run(a *app) error {
	file, err := openDecisions(a)
	if err != nil {
		return err
	}
	defer file.Close()
	found, err := findDecisions(a.ctx, file, strings.ToLower(strings.TrimSpace(c.ID)))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("no decision in %s has an event_id or decision_id that begins with %q", a.data, c.ID)
	}
	all := api.ExplainAll(found)
	return a.Emit(all, func(w *cli.Text) { api.Print(w, all, c.Stages) })
}

// minPrefix is how much of an id a look-up needs.
const minPrefix = 4

// findDecisions returns all turns of an event, oldest first, or one decision.
func findDecisions(ctx context.Context, file *sqlite.Reader, id string) ([]notify.Decided, error) {
	if whole, err := uuid.Parse(id); err == nil {
		turns, err := api.Turns(ctx, file, whole)
		if err != nil || len(turns) > 0 {
			return turns, err
		}
		one, err := file.Decision(ctx, whole)
		if err != nil || one == nil {
			return nil, err
		}
		return []notify.Decided{*one}, nil
	}
	if len(id) < minPrefix {
		return nil, &cli.UsageError{Err: fmt.Errorf("%q is too short for the beginning of an id: give %d characters or more", id, minPrefix)}
	}
	events, decisions := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
	for d, err := range file.Records(ctx, ledger.Filter{}) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(d.Record.EventID.String(), id) {
			events[d.Record.EventID] = true
		}
		if strings.HasPrefix(d.Record.DecisionID.String(), id) {
			decisions[d.Record.DecisionID] = true
		}
	}
	if n := len(events) + len(decisions); n > 1 {
		return nil, &cli.UsageError{Err: fmt.Errorf("%d ids begin with %q: give more of it", n, id)}
	}
	for event := range events {
		return api.Turns(ctx, file, event)
	}
	for decision := range decisions {
		return findDecisions(ctx, file, decision.String())
	}
	return nil, nil
}
