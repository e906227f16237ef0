package notifications

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine/notify"
	"keyfold/internal/cli"
	"keyfold/service/notify/api"
	"keyfold/sink/ledger/postgres"
)

// decisionCmd reads decisions.
type decisionCmd struct {
	Show decisionShowCmd `cmd:"" help:"Explain one decision. Read-only."`
}

// eventCmd reads what was decided of an event.
type eventCmd struct {
	Show eventShowCmd `cmd:"" help:"Explain all decisions of a notification, oldest first. Read-only."`
}

// shown is an id, and how much is shown of what it names.
type shown struct {
	ID     string `arg:"" help:"A UUID."`
	Stages bool   `help:"Show also what each stage saw."`
}

// Check refuses what is no UUID.
func (s *shown) Check(a *app.App) error {
	_, err := s.id()
	return errors.Join(err, a.CheckLedger())
}

func (s *shown) id() (uuid.UUID, error) {
	id, err := uuid.Parse(s.ID)
	if err != nil {
		return id, fmt.Errorf("%q is no UUID: give the whole id, as the answer of POST /v1/notifications or the dispatch has it", s.ID)
	}
	return id, nil
}

// print prints decisions, of which there is at least one.
func (s *shown) print(a *app.App, found []notify.Decided, result func([]api.Explained) any) error {
	all := api.ExplainAll(found)
	return a.Emit(result(all), func(w *cli.Text) { api.Print(w, all, s.Stages) })
}

// decisionShowCmd explains one decision.
type decisionShowCmd struct {
	shown `embed:""`
}

// Help is the long text.
func (c *decisionShowCmd) Help() string {
	return `It is told from the stored record alone: what each stage saw, which rule matched and which nearly did, the parts of
the score, why it is not NOW, and when it is decided again. --stages lists the stages one by one. The id has the time
of the decision, so one day's partition is read. Of an erased user's decision only that is told.

Examples:
  keyfold notify decision show 0198c8f0-7a00-7000-8000-000000000001
  keyfold notify decision show 0198c8f0-7a00-7000-8000-000000000001 --stages
  keyfold notify decision show 0198c8f0-7a00-7000-8000-000000000001 -o json`
}

// Run prints it.
func (c *decisionShowCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		id, err := c.id()
		if err != nil {
			return err
		}
		found, err := l.Decision(a.Ctx, id)
		if err != nil {
			return err
		}
		if found == nil {
			return fmt.Errorf("no decision has the decision_id %s; of an event_id: keyfold notify event show %s", id, id)
		}
		return c.print(a, []notify.Decided{*found}, func(all []api.Explained) any { return all[0] })
	})
}

// eventShowCmd explains all decisions of an event.
type eventShowCmd struct {
	shown `embed:""`
}

// Help is the long text.
func (c *eventShowCmd) Help() string {
	return `A notification that was LATER has several decisions: at most 3. -o json prints {"event_id","turns":[...]}.

Examples:
  keyfold notify event show 6f6c4d00-8000-4000-8000-000000000001
  keyfold notify event show 6f6c4d00-8000-4000-8000-000000000001 --stages`
}

// Run prints them.
func (c *eventShowCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		id, err := c.id()
		if err != nil {
			return err
		}
		found, err := api.Turns(a.Ctx, l, id)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("no notification with the event_id %s was decided; of a decision_id: keyfold notify decision show %s", id, id)
		}
		return c.print(a, found, func(all []api.Explained) any { return map[string]any{"event_id": id, "turns": all} })
	})
}
