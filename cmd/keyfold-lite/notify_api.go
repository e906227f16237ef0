package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/source/ingest"
)

// Paths of the API.
const (
	notificationsPath = "/v1/notifications"
	usersPath         = "/v1/users/"
	preferencesSuffix = "/preferences"
)

// decideTimeout is how long a request waits for its decisions.
const decideTimeout = 20 * time.Second

// notifyAPI answers requests with decisions. It implements [ingest.Application].
type notifyAPI struct{ *notifyRuntime }

// Ready implements [ingest.Application].
func (n *notifyAPI) Ready(ctx context.Context) error {
	if err := context.Cause(n.failed); err != nil {
		return err
	}
	_, err := n.ledger.NextDue(ctx)
	return err
}

// Serve implements [ingest.Application].
func (n *notifyAPI) Serve(r *ingest.Request) *ingest.Answer {
	path := r.URL.Path
	switch {
	case path == notificationsPath:
		if r.Method != http.MethodPost {
			return ingest.RefuseMethod(r, http.MethodPost)
		}
		return n.post(r)
	case strings.HasPrefix(path, notificationsPath+"/"):
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return ingest.RefuseMethod(r, "GET, HEAD")
		}
		return n.turns(r, strings.TrimPrefix(path, notificationsPath+"/"))
	case strings.HasPrefix(path, usersPath) && strings.HasSuffix(path, preferencesSuffix):
		return n.preferences(r)
	default:
		return ingest.Refuse(http.StatusNotFound, ingest.Fault{
			Reason: "not_found", Error: "no such path: notifications go to POST " + notificationsPath,
		})
	}
}

// decision is the answer for one notification.
type decision struct {
	EventID    uuid.UUID        `json:"event_id"`
	Outcome    notify.Outcome   `json:"outcome"`
	Reasons    []string         `json:"reasons"`
	DecisionID uuid.UUID        `json:"decision_id"`
	Turn       int              `json:"turn"`
	DecidedAt  string           `json:"decided_at"`
	DeferUntil string           `json:"defer_until,omitempty"`
	Channels   []notify.Channel `json:"channels,omitempty"`
	Repeat     bool             `json:"repeat"` // it was decided before: this is that decision
	// HandedOver says of a NOW whether the senders have confirmed it. Where they have
	// not, it is tried again every minute.
	HandedOver *bool  `json:"handed_over,omitempty"`
	Error      string `json:"error,omitempty"`
}

// post decides the notifications of a request: all of them, or none where one is
// malformed. With 409, an event_id is another user's; the others are decided, and
// sent again they get their decisions.
func (n *notifyAPI) post(r *ingest.Request) *ingest.Answer {
	var (
		events []*notify.Notification
		faults []ingest.Fault
		large  bool
	)
	now := engine.Now()
	if refused := r.Each(func(index int, text []byte, err error) {
		var event *notify.Notification
		if err == nil {
			event, err = notify.Parse(text, now)
		}
		if err == nil {
			events = append(events, event)
			return
		}
		large = large || engine.ReasonOf(err) == engine.ReasonBodyTooLarge
		for _, f := range faultsOf(err) {
			faults = append(faults, ingest.Fault{Index: &index, Field: f.Field, Reason: f.Reason, Error: f.Text})
		}
	}); refused != nil {
		return refused
	}
	if len(faults) > 0 {
		status := http.StatusBadRequest
		if large {
			status = http.StatusRequestEntityTooLarge
		}
		return ingest.Refuse(status, faults...)
	}
	ctx, cancel := context.WithTimeout(r.Context(), decideTimeout)
	defer cancel()
	verdicts, err := n.notifier.Decide(ctx, events)
	if err != nil {
		return ingest.Unavailable("not_decided", "the notifications were not decided in time; send them again: what was decided keeps its decision", err)
	}
	return n.answer(ctx, events, verdicts)
}

// errNotHandedOver is the error of a decision whose notification no sender has taken.
const errNotHandedOver = "it is decided and was not handed over: it is tried again every minute"

// answer says of each notification what was decided.
func (n *notifyAPI) answer(ctx context.Context, events []*notify.Notification, verdicts []processor.Verdict) *ingest.Answer {
	answers := make([]decision, len(events))
	var faults []ingest.Fault
	for i := range verdicts {
		v := &verdicts[i]
		var err error
		switch {
		case len(v.Records) > 0: // decided, and handed over or not
			answers[i] = decisionOf(&v.Records[0], v.Err == nil)
			if v.Err != nil {
				answers[i].Error = errNotHandedOver
			}
		case v.Key.Outcome != 0: // decided before, and handed over or not
			if answers[i], err = n.known(ctx, v); v.Err != nil {
				answers[i].Error = errNotHandedOver
			}
		case v.Outcome == processor.Dead:
			faults = append(faults, ingest.Fault{Index: &i, Field: "event_id", Reason: engine.ReasonOf(v.Err), Error: v.Err.Error()})
		default:
			err = v.Err
			if err == nil {
				err = errors.New("not decided")
			}
		}
		if err != nil {
			return ingest.Unavailable("not_decided", "a notification could not be decided; send the request again: what was decided keeps its decision", err)
		}
	}
	if len(faults) > 0 {
		return ingest.Refuse(http.StatusConflict, faults...)
	}
	return &ingest.Answer{Status: http.StatusOK, Body: map[string]any{"decisions": answers}}
}

func decisionOf(r *notify.Record, handedOver bool) decision {
	d := decision{
		EventID: r.EventID, DecisionID: r.DecisionID, Outcome: r.Outcome, Reasons: r.Reasons, Turn: r.Turn,
		DecidedAt: instant(r.DecidedAt), Channels: r.Channels,
	}
	if r.DeferUntil != 0 {
		d.DeferUntil = instant(r.DeferUntil)
	}
	if r.Outcome == notify.Now {
		d.HandedOver = &handedOver
	}
	return d
}

func instant(at engine.Millis) string { return at.Time().Format("2006-01-02T15:04:05.000Z07:00") }

// known reads the decision that was made before.
func (n *notifyAPI) known(ctx context.Context, v *processor.Verdict) (decision, error) {
	stored, err := n.ledger.Decision(ctx, v.Key.DecisionID)
	if err != nil {
		return decision{}, err
	}
	if stored == nil {
		return decision{}, fmt.Errorf("decision %s is not in the ledger", v.Key.DecisionID)
	}
	d := decisionOf(&stored.Record, v.Key.Dispatched)
	d.EventID, d.Repeat = v.Key.EventID, true
	return d, nil
}

// turns answers with all decisions of a notification.
func (n *notifyAPI) turns(r *ingest.Request, id string) *ingest.Answer {
	event, err := uuid.Parse(id)
	if err != nil {
		return ingest.Refuse(http.StatusBadRequest, ingest.Fault{Field: "event_id", Reason: notify.FaultBadEventID, Error: "the path ends with an event_id, which is a UUID"})
	}
	found, err := turnsOf(r.Context(), n.ledger.Reader, event)
	if err != nil {
		return ingest.Unavailable("store_failed", "the decisions could not be read; ask again", err)
	}
	if len(found) == 0 {
		return ingest.Refuse(http.StatusNotFound, ingest.Fault{Field: "event_id", Reason: "not_found", Error: "no notification with this event_id was decided"})
	}
	turns := make([]explained, len(found))
	for i := range found {
		turns[i] = explainedOf(&found[i])
	}
	return &ingest.Answer{Status: http.StatusOK, Body: map[string]any{"event_id": event, "turns": turns}}
}

// preferences answers with a user's preferences, or replaces them.
func (n *notifyAPI) preferences(r *ingest.Request) *ingest.Answer {
	escaped := strings.TrimSuffix(strings.TrimPrefix(r.URL.EscapedPath(), usersPath), preferencesSuffix)
	user, err := url.PathUnescape(escaped)
	if err == nil {
		err = checkUser(user)
	}
	if err != nil || strings.Contains(escaped, "/") {
		return ingest.Refuse(http.StatusBadRequest, ingest.Fault{Field: "user_id", Reason: "bad_user", Error: fmt.Sprintf("the path has a user id of 1 to %d characters", notify.MaxUserRunes)})
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		standings, err := n.ledger.Load(r.Context(), []notify.Ask{{User: user}})
		if err != nil {
			return ingest.Unavailable("store_failed", "the preferences could not be read; ask again", err)
		}
		return &ingest.Answer{Status: http.StatusOK, Body: standings[0].Preferences}
	case http.MethodPut:
		return n.putPreferences(r, user)
	default:
		return ingest.RefuseMethod(r, "GET, HEAD, PUT")
	}
}

func (n *notifyAPI) putPreferences(r *ingest.Request, user string) *ingest.Answer {
	if refused := r.JSON(); refused != nil {
		return refused
	}
	body, refused := r.Read()
	if refused != nil {
		return refused
	}
	own, members, err := parsePreferences(body)
	if err != nil {
		var faults []ingest.Fault
		for text := range strings.Lines(err.Error()) {
			field := ""
			if members != nil {
				field, _, _ = strings.Cut(text, ":")
			}
			faults = append(faults, ingest.Fault{Field: field, Reason: "bad_preferences", Error: strings.TrimSuffix(text, "\n")})
		}
		return ingest.Refuse(http.StatusBadRequest, faults...)
	}
	if err := n.ledger.SetPreferences(r.Context(), user, own); err != nil {
		if engine.KindOf(err) == engine.Permanent {
			return ingest.Refuse(http.StatusConflict, ingest.Fault{Field: "user_id", Reason: engine.ReasonOf(err), Error: err.Error()})
		}
		return ingest.Unavailable("store_failed", "the preferences could not be stored; send them again", err)
	}
	return &ingest.Answer{Status: http.StatusOK, Body: own}
}
