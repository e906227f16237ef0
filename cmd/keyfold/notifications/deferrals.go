package notifications

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/postgres"
)

// deferralsCmd looks after what waits for its time.
type deferralsCmd struct {
	Stats   deferralsStatsCmd   `cmd:"" help:"Count deferrals by type and by the time they are due. Read-only."`
	List    deferralsListCmd    `cmd:"" help:"List deferrals, the next due first. Read-only."`
	Release deferralsReleaseCmd `cmd:"" help:"Make deferrals due now: they are decided again at once."`
}

// deferralsStatsCmd counts.
type deferralsStatsCmd struct{}

// Help is the long text.
func (c *deferralsStatsCmd) Help() string {
	return `Counts from an index: it is quick with a million deferrals. "due" are those whose time has come and
that no worker has claimed yet: a number that stays above 0 means that no worker runs, or that they do
not keep up. "claimed" are being decided, or wait for their dispatch to be confirmed.

Examples:
  keyfold notify deferrals stats
  keyfold notify deferrals stats -o json`
}

func (c *deferralsStatsCmd) Check(a *app.App) error { return a.CheckLedger() }

// deferralCounts are the counts of one type, or of all.
type deferralCounts struct {
	Type    string `json:"event_type"`
	Total   int64  `json:"total"`
	Due     int64  `json:"due"`
	Claimed int64  `json:"claimed"`
	Minute  int64  `json:"due_within_a_minute"`
	Hour    int64  `json:"due_within_an_hour"`
	Day     int64  `json:"due_within_a_day"`
	Later   int64  `json:"due_later"`
}

func (c *deferralCounts) add(n ledger.DeferralCount) {
	c.Total += n.Due + n.Claimed + n.Minute + n.Hour + n.Day + n.Later
	c.Due, c.Claimed = c.Due+n.Due, c.Claimed+n.Claimed
	c.Minute, c.Hour, c.Day, c.Later = c.Minute+n.Minute, c.Hour+n.Hour, c.Day+n.Day, c.Later+n.Later
}

// Run prints the counts.
func (c *deferralsStatsCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		now := engine.Now()
		counted, err := l.CountDeferrals(a.Ctx, now, 0)
		if err != nil {
			return err
		}
		all, types := deferralCounts{Type: "all"}, []deferralCounts{}
		var oldest engine.Millis
		for _, n := range counted {
			one := deferralCounts{Type: n.Type.String()}
			one.add(n)
			all.add(n)
			types = append(types, one)
			if oldest == 0 || n.Oldest < oldest {
				oldest = n.Oldest
			}
		}
		overdue := 0.0
		if oldest > 0 {
			overdue = max(0, float64(now-oldest)/1000)
		}
		report := map[string]any{"all": all, "by_type": types, "oldest_due_seconds": overdue}
		return a.Emit(report, func(w *cli.Text) {
			w.Line("%s", cli.Count(all.Total, "deferral"))
			if all.Total == 0 {
				return
			}
			printDeferralCounts(w, append(types, all))
			if overdue > 0 {
				w.Line("the oldest one was due %s ago", cli.Age(time.Duration(overdue*float64(time.Second))))
			}
		})
	})
}

func printDeferralCounts(w *cli.Text, rows []deferralCounts) {
	table := tabwriter.NewWriter(w.W, 0, 0, 2, ' ', tabwriter.AlignRight)
	lines := &cli.Text{W: table}
	lines.Line("TYPE\tDUE\tCLAIMED\t1 MIN\t1 H\t1 D\tLATER\tTOTAL\t")
	for i := range rows {
		r := &rows[i]
		lines.Line("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t", r.Type, cli.Number(r.Due), cli.Number(r.Claimed),
			cli.Number(r.Minute), cli.Number(r.Hour), cli.Number(r.Day), cli.Number(r.Later), cli.Number(r.Total))
	}
	w.Err = errors.Join(w.Err, lines.Err, table.Flush())
}

// deferralsListCmd lists.
type deferralsListCmd struct {
	User      string      `placeholder:"ID" help:"Only those of this user."`
	DueBefore cli.Instant `name:"due-before" placeholder:"TIME" help:"Only those due before this time: 2026-02-10T14:30:00Z, or how long ago: 5m."`
	Limit     int         `default:"100" help:"Deferrals at most."`
}

// Help is the long text.
func (c *deferralsListCmd) Help() string {
	return `No text of a notification is shown. -o json prints one object a line.

Examples:
  keyfold notify deferrals list --user anna
  keyfold notify deferrals list --due-before 5m
  keyfold notify deferrals list --due-before 2026-02-10T14:30:00Z --limit 1000 -o json`
}

func (c *deferralsListCmd) Check(a *app.App) error {
	var fault error
	if c.Limit < 1 {
		fault = errors.New("--limit must be above 0")
	}
	return errors.Join(fault, a.CheckLedger())
}

// deferralJSON is a deferral's line in -o json.
type deferralJSON struct {
	EventID      uuid.UUID `json:"event_id"`
	UserID       string    `json:"user_id"`
	EventType    string    `json:"event_type"`
	Turn         int       `json:"turn"`
	DueAt        string    `json:"due_at"`
	ClaimedUntil string    `json:"claimed_until,omitempty"`
	Digest       string    `json:"digest,omitempty"`
}

// Run prints a line per deferral: a table, or NDJSON with -o json.
func (c *deferralsListCmd) Run(a *app.App) error {
	return a.WithLedger(func(l *postgres.Ledger) error {
		user, err := person(a, l, c.User)
		if err != nil {
			return err
		}
		chosen := postgres.Waiting{User: user}
		if !c.DueBefore.IsZero() {
			chosen.DueBefore = engine.MillisOf(c.DueBefore.Time)
		}
		all, err := l.Deferrals(a.Ctx, chosen, c.Limit+1)
		if err != nil {
			return err
		}
		if len(all) > c.Limit {
			all = all[:c.Limit]
			defer fmt.Fprintf(a.Stderr, "the first %d; --limit shows more\n", c.Limit)
		}
		if a.JSON {
			return encodeDeferrals(a, all)
		}
		if len(all) == 0 {
			_, err := fmt.Fprintln(a.Stderr, "there is no such deferral")
			return err
		}
		table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
		lines := &cli.Text{W: table}
		lines.Line("EVENT\tUSER\tTYPE\tTURN\tDUE\tCLAIMED UNTIL\tDIGEST")
		for i := range all {
			j := deferralOf(&all[i])
			lines.Line("%s\t%s\t%s\t%d\t%s\t%s\t%s", j.EventID, cli.Printable(j.UserID), j.EventType, j.Turn, j.DueAt,
				orDash(j.ClaimedUntil), orDash(cli.Printable(j.Digest)))
		}
		return errors.Join(lines.Err, table.Flush())
	})
}

// person returns the user that an id stands for, "" for none.
func person(a *app.App, l *postgres.Ledger, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	return ledger.Person(a.Ctx, l, id)
}

func encodeDeferrals(a *app.App, all []postgres.Deferral) error {
	encode := a.Encoder()
	for i := range all {
		if err := encode.Encode(deferralOf(&all[i])); err != nil {
			return err
		}
	}
	return nil
}

func deferralOf(d *postgres.Deferral) deferralJSON {
	j := deferralJSON{
		EventID: d.Event.ID, UserID: d.Event.User(), EventType: d.Event.Type.String(), Turn: d.Turn.Number,
		DueAt: cli.At(d.DueAt.Time()), Digest: d.DigestKey,
	}
	if d.ClaimedUntil != 0 {
		j.ClaimedUntil = cli.At(d.ClaimedUntil.Time())
	}
	return j
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
