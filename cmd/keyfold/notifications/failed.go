package notifications

import (
	"context"

	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/keyfold/failures"
	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/service/notify/broker"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/deadletter"
)

// failedCmd looks after the dead letters.
type failedCmd = failures.Of[letters, letters]

// dlqCmd is its former name.
type dlqCmd = failures.Former[letters, letters]

// FailurePlaces are where pages find the dead letters.
func FailurePlaces() []failures.Place {
	return []failures.Place{
		{Where: "notifications", Name: "dead letters of notifications", Source: letters{Queued: "events"}},
		{Where: "deliveries", Name: "dead letters of delivery reports", Source: letters{Queued: "deliveries"}},
	}
}

// letters are the dead letters of events, or those of delivery reports.
type letters struct {
	failures.InBroker
	Queued string `name:"queue" enum:"events,deliveries" default:"events" help:"Dead letters of events, or of deliveries: the senders' reports."`
}

func (l letters) reports() bool { return l.Queued == "deliveries" }

// Queue implements [failures.Source]. The input queues of events share their dead letters.
func (l letters) Queue() rabbit.Names {
	if l.reports() {
		return broker.Deliveries()
	}
	return broker.Bulk()
}

// Describe implements [failures.Source].
func (letters) Describe() consume.Describe { return broker.Describe }

// ReadUser implements [failures.Source].
func (letters) ReadUser(text string) (string, error) { return failures.UserName(text) }

// Texts implements [failures.Source].
func (letters) Texts() failures.Texts {
	return failures.Texts{Command: "keyfold notify failed", User: "u-17", Type: "PROMO", Twice: "an event that went out twice is decided once"}
}

// Refused implements [failures.Replay].
func (l letters) Refused(letter *deadletter.Letter) (err error) {
	if l.reports() {
		_, err = notify.ParseReport(letter.Original, engine.Now())
	} else {
		_, err = notify.Parse(letter.Original, engine.Now())
	}
	return err
}

// Publish implements [failures.Replay].
func (l letters) Publish(ctx context.Context, _ *app.App, p *rabbit.Publisher, all []*deadletter.Letter) []error {
	if l.reports() {
		return broker.ReplayReports(ctx, p, all)
	}
	return broker.ReplayEvents(ctx, p, all)
}

// Horizon implements [failures.Replay]: no event is older than what tells that it was decided.
func (letters) Horizon() (known, forced bool) { return false, false }
