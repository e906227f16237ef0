package dashboard

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/service/profile/explanation"
	"keyfold/service/profile/recommend"
	"keyfold/service/profile/users"
	"keyfold/source/httpapi"
)

// Users is where the page of a user is read. Each function stands on what a command prints.
type Users struct {
	Program string // whose commands the page names

	// Window and Longest say when a window closes: so long after the user's last event, and
	// after the first one in it.
	Window, Longest time.Duration

	// Show returns what `user show` prints, with near products and the user's last events, and
	// where the user has no profile why, as the command says it.
	Show func(ctx context.Context, user int32, near, last int) (Shown, error)
	// Explain returns what `user explain` prints.
	Explain func(ctx context.Context, p *profile.Profile, o explanation.Options) (*explanation.View, error)
	// Recommend returns what `recommend` prints; nil: the page has no recommendations.
	Recommend func(ctx context.Context, user int32, o recommend.Options) (*recommend.Answer, error)
	// Notified returns what `notify user show` prints; nil: there is no ledger.
	Notified func(ctx context.Context, user int32) (*Notified, error)
	// Recent returns users whose events came last; nil: it is not known.
	Recent func(ctx context.Context) ([]RecentUser, error)
}

// Shown is a user's profile and last events.
type Shown struct {
	View *users.ProfileView
	None string // why there is no profile
	Note string // why events are missing; "" otherwise
}

// RecentUser is a user with the time of the last event that came.
type RecentUser struct {
	ID int32
	At time.Time
}

// alone reports whether there is no overview, so that another page is the first one.
func (s *Sources) alone() bool { return s.Look == nil && (s.Users != nil || s.Notifications != nil) }

// first is the path of the first page where there is no overview.
func (s *Sources) first() string {
	if s.Users == nil {
		return notificationsPath
	}
	return usersPath
}

// single reports whether all is one process.
func (s *Sources) single() bool { return s.Single || s.alone() }

// offered returns the routes of what there is to show.
func offered(all []route, config Config, sources Sources) []route {
	return slices.DeleteFunc(all, func(r route) bool {
		switch r.path {
		case "/":
			return sources.alone()
		case "/workers", "/alerts", "/runbook":
			return sources.single()
		case evaluationPath:
			return sources.Evaluated == nil
		case usersPath, userPath:
			return sources.Users == nil
		case failuresPath, failurePath:
			return sources.Failures == nil
		case notificationsPath, decisionPath:
			return sources.Notifications == nil
		case rulesPath, rulePath:
			return sources.Rules == nil
		case auditPath, jobPath, planPath, doPath, unlockPath:
			return !config.Actions
		}
		return false
	})
}

const (
	usersPath = "/users"
	userPath  = "/users/" // an id stands behind it
)

// usersView leads to users.
type usersView struct {
	Query  string // that is no id
	Recent []RecentUser
	Fault  string
	Asked  bool // for recent ones
}

func (d *Dashboard) users(r *httpapi.Request) *httpapi.Answer {
	q := strings.TrimSpace(r.URL.Query().Get("q"))
	if id, ok := userID(q); ok {
		return d.lead(userPath + strconv.Itoa(int(id)))
	}
	v := usersView{Query: q, Asked: d.sources.Users.Recent != nil}
	if v.Asked {
		ctx, cancel := context.WithTimeout(r.Context(), readBound)
		defer cancel()
		var err error
		if v.Recent, err = d.sources.Users.Recent(ctx); err != nil {
			v.Fault = "the users of the last events cannot be read: " + err.Error()
		}
	}
	return d.page(r, "users", "Users", d.seenNow(), v)
}

// seenNow is what the watch knows, as of now: pages of users read for themselves.
func (d *Dashboard) seenNow() *snapshot {
	seen := *d.watch.last.Load()
	seen.At = d.config.Now()
	return &seen
}

// userID reads an id as the commands do.
func userID(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil && n > 0
}

// found returns where a search leads to that names a user, a notification or a failure; "": it names none.
func (d *Dashboard) found(q string) string {
	q = strings.TrimSpace(q)
	id, isUser := userID(q)
	decision, err := uuid.Parse(q)
	notifications, users, asked := d.sources.Notifications != nil, d.sources.Users != nil, url.Values{"q": {q}}.Encode()
	switch {
	case notifications && err == nil:
		return decisionPath + decision.String()
	case users && isUser:
		return userPath + strconv.Itoa(int(id))
	case notifications && (isUser || !users && d.sources.single()):
		return notificationsPath + "?" + asked
	case users && d.sources.single(): // there is nothing else to search
		return usersPath + "?" + asked
	case d.namesFailure(q):
		return failuresPath + "?" + url.Values{"id": {q}}.Encode()
	}
	return ""
}

// searches names what the search field finds.
func (d *Dashboard) searches() string {
	found := []string{}
	if d.sources.Users != nil || d.sources.Notifications != nil {
		found = append(found, "a user's id")
	}
	if d.sources.Notifications != nil {
		found = append(found, "a notification's")
	}
	switch {
	case len(found) == 0:
		return "words of the runbook"
	case !d.sources.single():
		found = append(found, "words")
	}
	if n := len(found) - 1; n > 0 {
		return strings.Join(found[:n], ", ") + ", or " + found[n]
	}
	return found[0]
}

// readBound is how long a page waits for what it reads.
const readBound = 3 * time.Second

// Most of what the page of a user lists.
const (
	nearShown   = 10
	nearKnown   = 30 // a product that left the shown ones is looked for among these
	eventsShown = 15
	sumsShown   = 6
)

// question is what the viewer asks: a profile otherwise than it is.
type question struct {
	Without  string
	HalfLife time.Duration
	Text     string // the half-life, as it was given
	Fault    string
}

func (q question) asked() bool { return q.Fault == "" && (q.Without != "" || q.HalfLife > 0) }

func questionOf(values url.Values) (q question) {
	q.Without, q.Text = values.Get("without"), values.Get("half-life")
	var span cli.Span
	if q.Text == "" {
		return q
	}
	if err := span.UnmarshalText([]byte(q.Text)); err != nil || span <= 0 {
		q.Fault = fmt.Sprintf("the half-life %q is no length of time above 0: such as 12h or 7d", q.Text)
	}
	q.HalfLife = time.Duration(span)
	return q
}

// waiting is what waits for a window.
type waiting struct {
	Events  int
	Left    string // until the window closes; "": it is over
	Seconds string // the same, exactly
	Due     string // names the window's end: an event may move it
	Known   bool   // Left is
	Late    bool   // it should have been written by now
}

// lateAfter is how long after its window's end an event is late. Writes, retries and a relay
// take a moment.
const lateAfter = 10 * time.Second

// waitingOf says when the window of the waiting events closes.
func (u *Users) waitingOf(events []users.Event, now time.Time) *waiting {
	var first, last time.Time
	w := &waiting{Known: true}
	for i := range events {
		e := &events[i]
		if !e.Waits {
			continue
		}
		w.Events++
		since := e.Since.Time()
		w.Known = w.Known && e.Since != 0
		if w.Events == 1 || since.Before(first) {
			first = since
		}
		if w.Events == 1 || since.After(last) {
			last = since
		}
	}
	if w.Events == 0 {
		return nil
	}
	due := last.Add(u.Window)
	if longest := first.Add(u.Longest); longest.Before(due) {
		due = longest
	}
	left := due.Sub(now)
	w.Late = w.Known && left < -lateAfter
	if w.Known && left > 0 {
		w.Left, w.Seconds = fmt.Sprintf("%.0f s", math.Ceil(left.Seconds())), fmt.Sprintf("%.1f", left.Seconds())
		w.Due = strconv.FormatInt(due.UnixMilli(), 10)
	}
	return w
}
