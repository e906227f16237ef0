package api

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/cli"
	"keyfold/service/notify/preference"
	"keyfold/sink/ledger"
	"keyfold/source/httpapi"
)

// Explained is a decision with its explanation.
type Explained struct {
	Record   notify.Record   `json:"decision"`
	Event    json.RawMessage `json:"event"`    // null: its user was erased
	Delivery notify.Delivery `json:"delivery"` // null of a LATER
	notify.Explanation
}

// Explain explains a decision. Of an erased user's only what names the decision is shown.
func Explain(d *notify.Decided) Explained {
	e := Explained{Record: d.Record, Event: json.RawMessage("null"), Delivery: d.Delivery, Explanation: notify.Explain(d)}
	if d.Event != nil {
		e.Event = d.Event.Body
	}
	if r := &d.Record; e.Erased {
		e.Delivery, e.Event = notify.Delivery{}, json.RawMessage("null")
		e.Record = notify.Record{
			DecisionID: r.DecisionID, EventID: r.EventID, Seq: r.Seq, Type: r.Type, Outcome: r.Outcome, Reasons: []string{},
			RuleVersion: r.RuleVersion, Turn: r.Turn, DecidedAt: r.DecidedAt,
		}
	}
	return e
}

// ExplainAll explains decisions.
func ExplainAll(found []notify.Decided) []Explained {
	all := make([]Explained, len(found))
	for i := range found {
		all[i] = Explain(&found[i])
	}
	return all
}

// Untold returns decisions without what their notifications say.
func Untold(found []notify.Decided) []notify.Decided {
	all := slices.Clone(found)
	for i := range all {
		if e := all[i].Event; e != nil {
			untold := *e
			untold.Title, untold.Message, untold.Body = "", "", nil
			all[i].Event = &untold
		}
		near := slices.Clone(all[i].Record.Facts.Near)
		for j, line := range near {
			if ofText.MatchString(line) {
				near[j], _, _ = strings.Cut(line, ", found ")
			}
		}
		all[i].Record.Facts.Near = near
	}
	return all
}

// ofText is of a rule that nearly matched and asks for a text: what was found is that text.
var ofText = regexp.MustCompile(`: asks for (NOT\()?(title|message)\b`)

// Print writes decisions for people: the sentences and, where the stages are asked for,
// what each of them saw.
func Print(w *cli.Text, all []Explained, stages bool) {
	for i := range all {
		if i > 0 {
			w.Line("")
		}
		by := ""
		if all[i].DecidedBy != "" {
			by = fmt.Sprintf(", by the stage %q", all[i].DecidedBy)
		}
		w.Line("decision %s%s", all[i].Record.DecisionID, by)
		for _, line := range all[i].Lines {
			w.Line("  %s", cli.Printable(line))
		}
		if stages && len(all[i].Stages) > 0 {
			w.Line("  stages:")
			for _, s := range all[i].Stages {
				w.Line("  %4d  %-32s  %s", s.Number, s.Name, s.Result)
				for _, line := range s.Saw {
					w.Line("        %s", cli.Printable(line))
				}
			}
		}
	}
}

// Recorder reads records.
type Recorder interface {
	Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error]
}

// Turns returns all decisions of an event, oldest first, and behind them those of its
// follow-ups.
func Turns(ctx context.Context, records Recorder, event uuid.UUID) (turns []notify.Decided, err error) {
	var follow []uuid.UUID
	for d, err := range records.Records(ctx, ledger.Filter{Event: event, Oldest: true}) {
		if err != nil {
			return nil, err
		}
		turns = append(turns, d)
		for i := range d.Record.Facts.FollowUps {
			follow = append(follow, d.Record.Facts.FollowUps[i].EventID)
		}
	}
	for _, id := range follow { // a chain has an end
		more, err := Turns(ctx, records, id)
		if err != nil {
			return nil, err
		}
		turns = append(turns, more...)
	}
	return turns, nil
}

// turns answers with all decisions of a notification.
func (a *API) turns(r *httpapi.Request, id string) *httpapi.Answer {
	event, err := uuid.Parse(id)
	if err != nil {
		return refuse(http.StatusBadRequest, "event_id", notify.FaultBadEventID, "the path ends with an event_id, which is a UUID")
	}
	found, err := Turns(r.Context(), a.ports.Ledger, event)
	if err != nil {
		return unread(err, "the decisions could not be read; ask again")
	}
	if len(found) == 0 {
		return refuse(http.StatusNotFound, "event_id", "not_found", "no notification with this event_id was decided")
	}
	return ok(map[string]any{"event_id": event, "turns": ExplainAll(found)})
}

// decision answers with one decision.
func (a *API) decision(r *httpapi.Request, text string) *httpapi.Answer {
	id, err := uuid.Parse(text)
	if err != nil {
		return refuse(http.StatusBadRequest, "decision_id", notify.FaultBadDecisionID, "the path ends with a decision_id, which is a UUID")
	}
	found, err := a.ports.Ledger.Decision(r.Context(), id)
	if err != nil {
		return unread(err, "the decision could not be read; ask again")
	}
	if found == nil {
		return refuse(http.StatusNotFound, "decision_id", "not_found", "no decision has this decision_id")
	}
	return ok(Explain(found))
}

// user serves what belongs to one user.
func (a *API) user(r *httpapi.Request) *httpapi.Answer {
	rest := strings.TrimPrefix(r.URL.EscapedPath(), usersPath)
	if user, alias, ok := strings.Cut(rest, aliasesPath); ok && a.ports.Erases {
		return a.aliases(r, user, alias)
	}
	escaped, what, whole := rest, "", true
	if at := strings.LastIndexByte(rest, '/'); at >= 0 {
		escaped, what, whole = rest[:at], rest[at+1:], false
	}
	if what != "decisions" && what != "preferences" && (!whole || !a.ports.Erases) {
		return noSuchPath()
	}
	user, refused := userIn(escaped)
	if refused != nil {
		return refused
	}
	switch what {
	case "":
		return a.forget(r, user)
	case "preferences":
		return a.preferences(r, user)
	}
	return reading(r, func() *httpapi.Answer { return a.history(r, user) })
}

// userIn returns the user whose id a part of a path is.
func userIn(escaped string) (string, *httpapi.Answer) {
	user, err := url.PathUnescape(escaped)
	if err == nil {
		err = preference.CheckUser(user)
	}
	if err != nil || strings.Contains(escaped, "/") {
		return "", refuse(http.StatusBadRequest, "user_id", "bad_user", fmt.Sprintf("the path has a user id of 1 to %d characters", notify.MaxUserRunes))
	}
	return user, nil
}

const (
	defaultLimit = 20
	maxLimit     = 100
)

// history answers with a user's decisions, newest first: at least limit of them, if
// there are as many, and with the last one all of its millisecond. next is the before of
// the page that follows; it is left out on the last page.
func (a *API) history(r *httpapi.Request, user string) *httpapi.Answer {
	before, limit, refused := pageOf(r.URL.RawQuery)
	if refused != nil {
		return refused
	}
	body := struct {
		UserID    string      `json:"user_id"`
		Decisions []Explained `json:"decisions"`
		Next      string      `json:"next,omitempty"`
	}{user, []Explained{}, ""}
	person, err := ledger.Person(r.Context(), a.ports.Ledger, user)
	if err != nil {
		return unread(err, "the decisions could not be read; ask again")
	}
	last := engine.Millis(0)
	for d, err := range a.ports.Ledger.Records(r.Context(), ledger.Filter{User: person, To: before, Page: limit + 1}) {
		if err != nil {
			return unread(err, "the decisions could not be read; ask again")
		}
		if len(body.Decisions) >= limit && d.Record.DecidedAt != last {
			body.Next = instant(last)
			break
		}
		last = d.Record.DecidedAt
		body.Decisions = append(body.Decisions, Explain(&d))
	}
	return ok(body)
}

// pageOf reads ?before= and ?limit=.
func pageOf(query string) (before engine.Millis, limit int, refused *httpapi.Answer) {
	limit = defaultLimit
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, 0, refuse(http.StatusBadRequest, "", "bad_parameter", "the query is no query string: send ?before=INSTANT&limit=N")
	}
	for name, given := range values {
		switch text := given[len(given)-1]; name {
		case "before":
			at, err := time.Parse(time.RFC3339, text)
			if err != nil || at.UnixMilli() <= 0 {
				return 0, 0, refuse(http.StatusBadRequest, "", "bad_parameter", "before is the next of the page before, or an instant such as 2026-02-10T14:30:00Z")
			}
			before = engine.Millis(at.UnixMilli())
		case "limit":
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > maxLimit {
				return 0, 0, refuse(http.StatusBadRequest, "", "bad_parameter", fmt.Sprintf("limit is a number from 1 to %d", maxLimit))
			}
			limit = n
		default:
			return 0, 0, refuse(http.StatusBadRequest, "", "bad_parameter", "the query has a parameter that is neither before nor limit")
		}
	}
	return before, limit, nil
}
