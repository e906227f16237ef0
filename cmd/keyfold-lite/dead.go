package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"keyfold/internal/cli"
	"keyfold/source/inbox"
)

// deadCmd looks at events that cannot be folded.
type deadCmd struct {
	List deadListCmd `cmd:"" help:"List them: where each was read, and why it is dead."`
	Show deadShowCmd `cmd:"" help:"Show one with its text."`
}

// deadEvent is a dead event in -o json.
type deadEvent struct {
	ID        int64      `json:"id,omitempty"`
	File      string     `json:"file,omitempty"`
	Line      int64      `json:"line,omitempty"`
	UserID    int32      `json:"user_id,omitempty"`
	MessageID string     `json:"message_id,omitempty"`
	Reason    string     `json:"reason"`
	Detail    string     `json:"detail"`
	Times     int        `json:"times,omitempty"`
	FirstAt   *time.Time `json:"first_at,omitempty"`
	LastAt    *time.Time `json:"last_at,omitempty"`
	Body      *string    `json:"body,omitempty"`
}

func deadEventOf(d *inbox.DeadEvent) deadEvent {
	e := deadEvent{
		ID: d.ID, File: d.Origin.Name, Line: d.Origin.Line, UserID: d.UserID, MessageID: d.MessageID,
		Reason: d.Reason, Detail: d.Detail, Times: d.Times,
	}
	if d.LastAt != 0 {
		first, last := d.FirstAt.Time(), d.LastAt.Time()
		e.FirstAt, e.LastAt = &first, &last
	}
	return e
}

// place says where the event was read.
func (e *deadEvent) place() string {
	if e.Line == 0 {
		return cmp.Or(e.File, "-")
	}
	return fmt.Sprintf("%s:%d", e.File, e.Line)
}

// printFirstDead names the first dead events of a run, and where all are.
func printFirstDead(w *cli.Text, a *app, s *summary) {
	for _, e := range s.FirstDead {
		at := ""
		if e.Line > 0 {
			at = fmt.Sprintf("line %d: ", e.Line)
		}
		w.Line("    %s%s", at, cli.Printable(cmp.Or(e.Detail, e.Reason)))
	}
	if s.Dead > 0 {
		w.Line("    all of them: %s failed list", a.command())
	}
}

// deadListCmd lists dead events.
type deadListCmd struct {
	Reason string `name:"reason" placeholder:"REASON" help:"Only those of one reason, such as bad_timestamp."`
}

// Run prints a line for each, in the order in which they came first.
func (c *deadListCmd) Run(a *app) error {
	n := 0
	encode := a.Encoder()
	w := &cli.Text{W: a.Stdout}
	err := eachDead(a, 0, c.Reason, func(d *inbox.DeadEvent) error {
		n++
		e := deadEventOf(d)
		if a.JSON {
			return encode.Encode(e)
		}
		w.Line("%d  %s  %s  %s", e.ID, cli.Printable(e.place()), e.Reason, cli.Printable(e.Detail))
		return w.Err
	})
	switch {
	case err != nil:
		return err
	case n > 0 || a.JSON:
		return nil
	case c.Reason != "":
		w.Line("no event is dead with the reason %q", c.Reason)
	default:
		w.Line("no event is dead")
	}
	return w.Err
}

// deadShowCmd shows one dead event.
type deadShowCmd struct {
	ID int64 `arg:"" help:"The id that failed list shows."`
}

// Check refuses an id that means all.
func (c *deadShowCmd) Check(*app) error {
	if c.ID < 1 {
		return fmt.Errorf("%d is no id of a dead event: take one from failed list", c.ID)
	}
	return nil
}

// Run prints it.
func (c *deadShowCmd) Run(a *app) error {
	found := false
	err := eachDead(a, c.ID, "", func(d *inbox.DeadEvent) error {
		found = true
		e, body := deadEventOf(d), string(d.Body)
		e.Body = &body
		return a.Emit(e, e.print)
	})
	if err == nil && !found {
		err = fmt.Errorf("there is no dead event %d in %s: failed list shows those there are", c.ID, a.data)
	}
	return err
}

func (e deadEvent) print(w *cli.Text) {
	w.Line("id         %d", e.ID)
	w.Line("read from  %s", cli.Printable(e.place()))
	w.Line("reason     %s", e.Reason)
	w.Line("detail     %s", cli.Printable(e.Detail))
	if e.UserID != 0 {
		w.Line("user       %d", e.UserID)
		w.Line("message    %s", cli.Printable(e.MessageID))
	}
	w.Line("came       %s, last on %s", cli.Count(int64(e.Times), "time"), e.LastAt.Format("2006-01-02 15:04:05 MST"))
	w.Line("text")
	w.Line("%s", cli.Printable(*e.Body))
}

// eachDead calls fn with dead events of the data folder.
func eachDead(a *app, id int64, reason string, fn func(*inbox.DeadEvent) error) error {
	file, err := openFile(a)
	if err != nil {
		return err
	}
	defer file.Close()
	for d, err := range inbox.Dead(a.ctx, file, id, reason) {
		if errors.Is(err, inbox.ErrNoDead) {
			err = fmt.Errorf("%s has no list of dead events yet: run keyfold-lite on it once", a.data)
		}
		if err != nil {
			return err
		}
		if err := fn(&d); err != nil {
			return err
		}
	}
	return nil
}
