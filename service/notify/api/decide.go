package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/source/httpapi"
)

// decideTimeout is how long a request waits for its decisions in the process.
const decideTimeout = 20 * time.Second

// Decision is the answer for one notification.
type Decision struct {
	EventID    uuid.UUID        `json:"event_id"`
	Outcome    notify.Outcome   `json:"outcome"`
	Reasons    []string         `json:"reasons"`
	DecisionID uuid.UUID        `json:"decision_id"`
	Turn       int              `json:"turn"`
	DecidedAt  string           `json:"decided_at"`
	DeferUntil string           `json:"defer_until,omitempty"`
	Channels   []notify.Channel `json:"channels,omitempty"`
	Repeat     bool             `json:"repeat"` // it was decided before: this is that decision
	// HandedOver says of a NOW whether the senders have confirmed it; nil: it is not
	// known. What they have not confirmed is tried again every minute.
	HandedOver *bool  `json:"handed_over,omitempty"`
	Error      string `json:"error,omitempty"`
}

// decide decides the notifications of a request in the process: all of them. With 409,
// an event_id is another user's; the others are decided, and sent again they get their
// decisions.
func (a *API) decide(r *httpapi.Request, q *request) *httpapi.Answer {
	ctx, cancel := context.WithTimeout(r.Context(), decideTimeout)
	defer cancel()
	verdicts, err := a.ports.Decider.Decide(ctx, q.events())
	if err != nil {
		return httpapi.Unavailable("not_decided", "the notifications were not decided in time; send them again: what was decided keeps its decision", err)
	}
	return a.decided(ctx, verdicts)
}

// errNotHandedOver is the error of a decision whose notification no sender has taken.
const errNotHandedOver = "it is decided and was not handed over: it is tried again every minute"

// decided says of each notification what was decided.
func (a *API) decided(ctx context.Context, verdicts []processor.Verdict) *httpapi.Answer {
	answers := make([]Decision, len(verdicts))
	var faults []httpapi.Fault
	for i := range verdicts {
		v := &verdicts[i]
		var err error
		switch {
		case len(v.Records) > 0: // decided, and handed over or not
			answers[i] = decisionOf(&v.Records[0])
			answers[i].handedOver(v.Err == nil)
			if v.Err != nil {
				answers[i].Error = errNotHandedOver
			}
		case v.Key.Outcome != 0: // decided before, and handed over or not
			if answers[i], err = a.known(ctx, v.Key); v.Err != nil {
				answers[i].handedOver(false)
				answers[i].Error = errNotHandedOver
			}
			answers[i].Repeat = true
		case v.Outcome == processor.Dead:
			faults = append(faults, httpapi.Fault{Index: &i, Field: "event_id", Reason: engine.ReasonOf(v.Err), Error: v.Err.Error()})
		default:
			err = v.Err
			if err == nil {
				err = errors.New("not decided")
			}
		}
		if err != nil {
			return httpapi.Unavailable("not_decided", "a notification could not be decided; send the request again: what was decided keeps its decision", err)
		}
	}
	if len(faults) > 0 {
		return httpapi.Refuse(http.StatusConflict, faults...)
	}
	return ok(map[string]any{"decisions": answers})
}

func decisionOf(r *notify.Record) Decision {
	d := Decision{
		EventID: r.EventID, DecisionID: r.DecisionID, Outcome: r.Outcome, Reasons: r.Reasons, Turn: r.Turn,
		DecidedAt: instant(r.DecidedAt), Channels: r.Channels,
	}
	if r.DeferUntil != 0 {
		d.DeferUntil = instant(r.DeferUntil)
	}
	return d
}

// handedOver says whether a NOW was handed over.
func (d *Decision) handedOver(yes bool) {
	if d.Outcome == notify.Now {
		d.HandedOver = &yes
	}
}

func instant(at engine.Millis) string { return at.Time().Format("2006-01-02T15:04:05.000Z07:00") }

// known reads the decision of an event's key. A key is marked as dispatched some seconds
// after the dispatch: of one without the mark it is not known whether it was.
func (a *API) known(ctx context.Context, key notify.Known) (Decision, error) {
	stored, err := a.ports.Ledger.Decision(ctx, key.DecisionID)
	if err != nil {
		return Decision{}, err
	}
	if stored == nil {
		return Decision{}, fmt.Errorf("decision %s is not in the ledger", key.DecisionID)
	}
	d := decisionOf(&stored.Record)
	d.EventID = key.EventID
	if key.Dispatched {
		d.handedOver(true)
	}
	return d, nil
}
