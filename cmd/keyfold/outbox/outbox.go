// Package outbox has the commands about the SQL outbox: what stores events in it,
// what publishes them, and what looks after them.
package outbox

import (
	"fmt"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/source/outbox"
)

// Cmd looks after what is stored.
type Cmd struct {
	Stats   statsCmd   `cmd:"" help:"Count unsent, failed and sent events."`
	Cleanup cleanupCmd `cmd:"" help:"Free the bodies of events that were published long ago."`
}

// statsCmd counts.
type statsCmd struct{}

func (c *statsCmd) Check(a *app.App) error { return a.CheckDatabase() }

// Run prints the counts.
func (c *statsCmd) Run(a *app.App) error {
	return a.WithDatabase(func(db *outbox.Database) error {
		backlog, err := db.Backlog(a.Ctx, 0)
		if err != nil {
			return err
		}
		sent, err := db.Count(a.Ctx, outbox.Filter{Sent: outbox.OnlySent})
		if err != nil {
			return err
		}
		age := backlog.Age(engine.Now())
		report := map[string]any{
			"unsent": backlog.Unsent, "oldest_unsent_seconds": age.Seconds(), "failed": backlog.Failed, "backfill": backlog.Backfill, "sent": sent,
		}
		return a.Emit(report, func(w *cli.Text) {
			oldest := ""
			if backlog.Unsent > 0 {
				oldest = fmt.Sprintf(", the oldest for %s", age.Round(time.Second))
			}
			w.Line("unsent  %s%s", cli.Number(backlog.Unsent), oldest)
			w.Line("failed  %s", cli.Number(backlog.Failed))
			if backlog.Backfill > 0 {
				w.Line("for keyfold backfill  %s", cli.Number(backlog.Backfill))
			}
			w.Line("sent    %s", cli.Number(sent))
		})
	})
}
