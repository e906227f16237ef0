package notifications

import (
	"context"

	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/keyfold/dlq"
	"keyfold/cmd/notifier/broker"
	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// dlqCmd looks after the dead letters.
type dlqCmd = dlq.Of[letters, letters]

// letters are the dead letters of events, or those of delivery reports.
type letters struct {
	Queued string `name:"queue" enum:"events,deliveries" default:"events" help:"Dead letters of events, or of deliveries: the senders' reports."`
}

func (l letters) reports() bool { return l.Queued == "deliveries" }

// Queue implements [dlq.Source]. The input queues of events share their dead letters.
func (l letters) Queue() rabbit.Names {
	if l.reports() {
		return broker.Deliveries()
	}
	return broker.Bulk()
}

// Describe implements [dlq.Source].
func (letters) Describe() rabbit.Describe { return broker.Describe }

// ReadUser implements [dlq.Source].
func (letters) ReadUser(text string) (string, error) { return dlq.UserName(text) }

// Texts implements [dlq.Source].
func (letters) Texts() dlq.Texts {
	return dlq.Texts{Command: "keyfold notify dlq", User: "u-17", Type: "PROMO", Twice: "an event that went out twice is decided once"}
}

// Refused implements [dlq.Replay].
func (l letters) Refused(letter *deadletter.Letter) (err error) {
	if l.reports() {
		_, err = notify.ParseReport(letter.Original, engine.Now())
	} else {
		_, err = notify.Parse(letter.Original, engine.Now())
	}
	return err
}

// Publish implements [dlq.Replay].
func (l letters) Publish(ctx context.Context, _ *app.App, p *rabbit.Publisher, all []*deadletter.Letter) []error {
	if l.reports() {
		return broker.ReplayReports(ctx, p, all)
	}
	return broker.ReplayEvents(ctx, p, all)
}

// Horizon implements [dlq.Replay]: no event is older than what tells that it was decided.
func (letters) Horizon() (known, forced bool) { return false, false }
