package notifications

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"keyfold/cmd/keyfold/app"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/cli"
	"keyfold/service/notify/api"
	"keyfold/service/notify/broker"
	"keyfold/source/rabbit"
)

// sendCmd publishes the notifications of a file.
type sendCmd struct {
	File    string `arg:"" help:"NDJSON or a JSON array, plain or gzip; - for stdin."`
	SkipBad bool   `name:"skip-bad" help:"Leave out bad notifications, name them on standard error, and publish the others."`
}

// Help is the long text.
func (c *sendCmd) Help() string {
	return `Each notification is checked as POST /v1/notifications checks it. All that are bad are named, with every fault.
Without --skip-bad nothing is published from the first bad one on, and the exit code is 1. What is published is confirmed
by the broker. A second run of the same file is safe: a notification is decided once under its event_id, and one without
gets an id that follows from its content.

Examples:
  keyfold notify send week.ndjson
  zcat week.ndjson.gz | keyfold notify send -`
}

// Check judges the broker's address.
func (c *sendCmd) Check(a *app.App) error { return a.CheckBroker() }

const (
	// sendChunk is how many notifications are published together.
	sendChunk = 1000
	// sendTimeout bounds the publishing of a chunk.
	sendTimeout = 30 * time.Second
	// maxReported bounds the bad notifications that are named.
	maxReported = 100
)

// badItem is a notification that was refused.
type badItem struct {
	Line    int64          `json:"line,omitempty"`    // of NDJSON, from 1
	Element int64          `json:"element,omitempty"` // of an array, from 1
	Faults  []notify.Fault `json:"faults"`
}

// sent is the report.
type sent struct {
	File      string    `json:"file"`
	Published int64     `json:"published"`
	Refused   int64     `json:"refused"`
	Unsent    int64     `json:"unsent"`        // good ones behind the first bad one
	Bad       []badItem `json:"bad,omitempty"` // the first of those refused
}

// Run publishes the file.
func (c *sendCmd) Run(a *app.App) (err error) {
	in, err := cli.OpenInput(c.File, a.Stdin)
	if err != nil {
		return fmt.Errorf("%w (name a file of NDJSON or a JSON array, plain or gzip, or - for standard input)", err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	return a.WithPublisher("notify send", func(p *rabbit.Publisher) error {
		s := sending{
			app: a, in: in, publish: broker.NewPublisher(p).Publish, skipBad: c.SkipBad, report: sent{File: in.Name},
			bar: a.Progress("publishing "+in.Name, in.Size, in.Read),
		}
		err := s.all(a.Ctx)
		s.bar.Done()
		if err != nil {
			err = fmt.Errorf("%s: %w\n%s published; run the same command again: what comes twice is decided once", in.Name, err, cli.Count(s.report.Published, "notification"))
		}
		if err != nil && !a.JSON {
			return err
		}
		return errors.Join(err, s.end())
	})
}

// sending publishes a file.
type sending struct {
	app     *app.App
	in      *cli.Input
	publish func(context.Context, []*notify.Notification) []error
	skipBad bool
	bar     *cli.Progress

	waiting []*notify.Notification
	report  sent
}

// all reads to the end. What was published before an error stays so.
func (s *sending) all(ctx context.Context) error {
	items, err := itemsOf(s.in)
	if err != nil {
		return err
	}
	for {
		text, err := items.next()
		if errors.Is(err, io.EOF) {
			return s.flush(ctx)
		}
		if err != nil {
			return errors.Join(err, s.flush(ctx))
		}
		event, err := notify.Parse(text, engine.Now())
		if err == nil {
			err = api.Sendable(event)
		}
		switch {
		case err != nil:
			if s.report.Refused == 0 && !s.skipBad {
				if err := s.flush(ctx); err != nil {
					return err
				}
			}
			s.refuse(items.position(), api.FaultsOf(err))
		case s.report.Refused > 0 && !s.skipBad:
			s.report.Unsent++
		default:
			s.waiting = append(s.waiting, event)
		}
		if len(s.waiting) == sendChunk {
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// flush publishes what waits. The error is the one that says most.
func (s *sending) flush(ctx context.Context) (err error) {
	if len(s.waiting) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	for _, one := range s.publish(ctx, s.waiting) {
		switch {
		case one == nil:
			s.report.Published++
		case err == nil || engine.KindOf(one) == engine.Configuration:
			err = one
		}
	}
	s.waiting = s.waiting[:0]
	s.bar.At(int(s.report.Published))
	return app.BrokerUnreached(err)
}

// refuse names a bad notification on standard error.
func (s *sending) refuse(bad badItem, faults []notify.Fault) {
	s.report.Refused++
	if bad.Faults = faults; s.report.Refused > maxReported {
		if s.report.Refused == maxReported+1 {
			fmt.Fprintf(s.app.Stderr, "%s has more that are bad: they are counted\n", s.in.Name)
		}
		return
	}
	s.report.Bad = append(s.report.Bad, bad)
	where := fmt.Sprintf("%s:%d", s.in.Name, bad.Line)
	if bad.Element > 0 {
		where = fmt.Sprintf("%s: element %d", s.in.Name, bad.Element)
	}
	for _, f := range faults {
		fmt.Fprintf(s.app.Stderr, "%s: %s\n", where, cli.Printable(f.Text))
	}
}

// end prints the report, and fails where a bad notification kept others from being
// published.
func (s *sending) end() error {
	r := &s.report
	if err := s.app.Emit(r, func(w *cli.Text) {
		text := cli.Count(r.Published, "notification") + " published"
		if r.Refused > 0 {
			text += fmt.Sprintf(", %s refused", cli.Number(r.Refused))
		}
		w.Line("%s", text)
	}); err != nil {
		return err
	}
	if r.Refused > 0 && !s.skipBad {
		return fmt.Errorf("%s bad, and %s behind the first one not published: correct the file and run it again, or leave them out with --skip-bad",
			cli.Count(r.Refused, "notification"), cli.Number(r.Unsent))
	}
	return nil
}
