package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/source/httpapi"
)

// Notifications is where the pages of notifications are read. Each function stands on what a
// command prints.
type Notifications struct {
	Program string // whose commands the pages name, such as "keyfold notify"

	// Counts counts the decisions from one instant to before another, of more than most so many.
	// [ErrTooMany]: it would take too long.
	Counts func(ctx context.Context, from, to time.Time, most int64) ([]DecisionCount, error)
	// Waiting counts what waits, those that are due and the others at most so many each.
	Waiting func(ctx context.Context, most int64) ([]WaitingCount, error)
	// Unreported counts the sent ones of more than an hour ago whose delivery is not reported, and
	// says how many it counts at most.
	Unreported func(ctx context.Context) (n, most int64, err error)
	// Explained returns what `event show` prints of an event, or of the one that a decision is of;
	// nil: there is neither. Without texts nothing of what the notification says is in it.
	Explained func(ctx context.Context, id uuid.UUID, texts bool) ([]Turn, error)
	// User returns what `user show` prints; nil: nothing is stored.
	User func(ctx context.Context, user string) (*Notified, error)
}

// ErrTooMany is of a count that would take too long.
var ErrTooMany = errors.New("counting takes too long")

// DecisionCount is how many decisions have an outcome and a first reason in common.
type DecisionCount struct {
	Outcome notify.Outcome
	Reason  string
	N       int64
}

// WaitingCount is how many notifications of a type wait, by the time they are due.
type WaitingCount struct {
	Type                                    string
	Due, Claimed, Minute, Hour, Day, Beyond int64
	Oldest                                  time.Time // zero: there is none
}

// Turn is a decision with its explanation.
type Turn struct {
	Title, Message string // of the notification, where they are asked for
	Record         notify.Record
	Delivery       notify.Delivery
	notify.Explanation
}

// Notified is what was decided of a user's notifications.
type Notified struct {
	User    string    // that the id stands for
	Decided []Decided // the newest first
	Waiting []Deferred
}

// Decided is a decision. No text of a notification is shown.
type Decided struct {
	At                              time.Time
	Outcome, Type, Reasons, EventID string
}

// Deferred is a notification that waits for its time.
type Deferred struct {
	Due           string
	Type, EventID string
	Turn          int
}

const (
	notificationsPath = "/notifications"
	decisionPath      = "/notifications/" // an id stands behind it
)

// notificationsView is the page of all decisions.
type notificationsView struct {
	Program string
	Query   string // that is no id
	Found   *Notified
	None    bool   // nothing is stored of the user
	Person  int32  // the user's page; 0: there is none
	Fault   string // why the user cannot be shown
	Hours   hoursView
}

func (d *Dashboard) notifications(r *httpapi.Request) *httpapi.Answer {
	q := strings.TrimSpace(r.URL.Query().Get("q"))
	if id, err := uuid.Parse(q); err == nil {
		return d.lead(decisionPath + id.String())
	}
	v := notificationsView{Program: d.sources.Notifications.Program, Query: q}
	if q != "" {
		v.find(r.Context(), d)
	}
	v.Hours = d.tally.view(r.Context(), d.config.Now())
	return d.page(r, "notifications", "Notifications", d.seenNow(), v)
}

// find reads what was decided of the user that is searched.
func (v *notificationsView) find(ctx context.Context, d *Dashboard) {
	if id, ok := userID(v.Query); ok && d.sources.Users != nil {
		v.Person = id
	}
	ctx, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	found, err := d.sources.Notifications.User(ctx, v.Query)
	if err != nil {
		v.Fault = inTime("the user's notifications", err)
		return
	}
	v.Found, v.None = found, found == nil
}

// decisionView is the page of a notification's decisions.
type decisionView struct {
	ID, Program string
	Fault       string
	Turns       []turnView
	Bodies      bool // texts can be shown
	Texts       bool // they are
}

type turnView struct {
	Turn
	ID       string // of its element
	Digit    string // the number of the decision in a circle
	At       time.Time
	Until    *time.Time // it is decided again
	Reasons  string
	User     string // the page of the user; "": there is none
	Other    bool   // it is of a follow-up, which has an id of its own
	Asked    bool   // the id in the path is this decision's
	Answered string // what became of it
}

func (d *Dashboard) decision(r *httpapi.Request) *httpapi.Answer {
	text := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, d.config.Path), decisionPath)
	id, err := uuid.Parse(text)
	if err != nil {
		return httpapi.Refuse(http.StatusNotFound, httpapi.Fault{Reason: "not_found", Error: "no such notification: an id is a UUID, as the answer of POST /v1/notifications or the dispatch has it"})
	}
	v := decisionView{ID: id.String(), Program: d.sources.Notifications.Program, Bodies: d.config.Bodies, Texts: r.Method == http.MethodPost}
	if v.Texts && !v.Bodies {
		return httpapi.Refuse(http.StatusForbidden, httpapi.Fault{Reason: "no_bodies", Error: "texts are not shown: the dashboard was not started so"})
	}
	ctx, cancel := context.WithTimeout(r.Context(), readBound)
	defer cancel()
	turns, err := d.sources.Notifications.Explained(ctx, id, v.Texts)
	switch {
	case err != nil:
		v.Fault = inTime("the decisions", err)
	case len(turns) == 0:
		return httpapi.Refuse(http.StatusNotFound, httpapi.Fault{Reason: "not_found", Error: fmt.Sprintf(
			"no notification with the event_id %s was decided, and no decision has this decision_id", id)})
	}
	if v.Texts && len(turns) > 0 {
		d.journal.add(entry{Who: r.Who(), From: r.Address(), Action: "notifications.show", Of: "notification " + v.ID, Done: int64(len(turns)), Result: "texts were shown"})
	}
	for i := range turns {
		v.Turns = append(v.Turns, d.turnOf(&turns[i], &turns[0], id))
	}
	return d.page(r, "decision", "Notification "+v.ID[:8], d.seenNow(), v)
}

// turnOf shows a decision. first is the first one of the notification, and id what the path names.
func (d *Dashboard) turnOf(t, first *Turn, id uuid.UUID) turnView {
	rec := &t.Record
	v := turnView{
		Turn: *t, ID: identifier("turn", rec.DecisionID.String()), Digit: string(rune('①' + min(rec.Turn, 8))), At: rec.DecidedAt.Time(),
		Reasons: strings.Join(rec.Reasons, ", "), Other: rec.EventID != first.Record.EventID, Asked: rec.DecisionID == id,
	}
	if rec.DeferUntil != 0 {
		until := rec.DeferUntil.Time()
		v.Until = &until
	}
	if rec.UserID != "" && len(rec.UserID) < maxText {
		v.User = d.personOf(rec.UserID)
	}
	if t.Delivery.Status != 0 {
		v.Answered = t.Delivery.Status.String()
	}
	return v
}

// personOf returns the page of a user.
func (d *Dashboard) personOf(user string) string {
	if id, ok := userID(user); ok && d.sources.Users != nil {
		return userPath + strconv.Itoa(int(id))
	}
	return notificationsPath + "?" + url.Values{"q": {user}}.Encode()
}
