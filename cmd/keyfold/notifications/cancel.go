package notifications

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/internal/cli"
	"keyfold/service/notify/api"
	"keyfold/service/notify/preference"
	"keyfold/sink/ledger/postgres"
)

// cancelCmd ends notifications that wait.
type cancelCmd struct {
	IDs  []string `arg:"" optional:"" name:"id" help:"Ids of notifications."`
	User string   `placeholder:"ID" help:"Whose they are; with --key, or for ids that may not have come yet."`
	Key  string   `placeholder:"KEY" help:"All of the user that wait with this dedupe_key, in place of ids."`

	all []notify.Cancellation
}

// Help is the long text.
func (c *cancelCmd) Help() string {
	return `What waits is ended with a record, NEVER CANCELLED, and so are the follow-ups of what was sent. What was sent stays
sent. One that has not come yet is never sent, where --user says whose it is. To run it again changes nothing.

Examples:
  keyfold notify cancel 0198c4a2-6f00-7000-8000-000000000001
  keyfold notify cancel --user anna --key order-17`
}

func (c *cancelCmd) Check(a *app.App) error {
	var faults engine.Faults
	for _, text := range c.IDs {
		id, err := uuid.Parse(text)
		faults.If(err != nil, "%q is no event_id: `keyfold notify deferrals list` shows those that wait", text)
		c.all = append(c.all, notify.Cancellation{User: c.User, Event: id})
	}
	faults.If((len(c.IDs) == 0) == (c.Key == ""), "name notifications by their ids, or a user's by --user and --key")
	faults.If(c.Key != "" && c.User == "", "--key without --user: dedupe_keys are a user's own")
	if c.Key != "" {
		c.all = []notify.Cancellation{{User: c.User, Key: c.Key}}
	}
	if c.User != "" {
		err := preference.CheckUser(c.User)
		faults.If(err != nil, "--user: %w", err)
	}
	return errors.Join(faults.Err(), a.CheckLedger())
}

// Run cancels.
func (c *cancelCmd) Run(a *app.App) error {
	sets, live, err := a.RuleSets()
	if err != nil {
		return err
	}
	return a.WithLedger(func(l *postgres.Ledger) error {
		if live != nil {
			if err := live.Load(a.Ctx, l); err != nil {
				return err
			}
		}
		canceller, err := canceller(a, l, sets)
		if err != nil {
			return err
		}
		done, err := api.New(api.Ports{Ledger: l, Canceller: canceller, Sets: sets}).Cancel(a.Ctx, c.all, false)
		if err != nil {
			return fmt.Errorf("not all were cancelled; run it again: %w", err)
		}
		return a.Emit(done, func(w *cli.Text) { c.print(w, done) })
	})
}

// cancelledTexts are the results for people.
var cancelledTexts = map[string]string{
	"cancelled": "cancelled", "sent": "sent before: it stays sent", "ended": "ended before: it is not sent",
	"not_waiting": "nothing waits with this key", "unknown": "no notification has this id; with --user ID it is never sent should it come",
}

func (c *cancelCmd) print(w *cli.Text, done []api.Cancelled) {
	for i := range done {
		name := c.Key
		if c.Key == "" {
			name = c.IDs[i]
		}
		w.Line("%s: %s", cli.Printable(name), cancelledTexts[done[i].Status])
		for _, id := range done[i].EventIDs {
			if c.Key != "" || id.String() != name {
				w.Line("  %s", id)
			}
		}
	}
}

// canceller ends what waits in a ledger. It sends nothing.
func canceller(a *app.App, l notify.Ledger, sets notify.Sets) (*processor.Processor, error) {
	return processor.New(processor.DefaultConfig(), processor.Ports{Ledger: l, Sets: sets, Log: a.Log})
}
