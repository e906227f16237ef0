package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/profile/explanation"
	"keyfold/service/profile/recommend"
	"keyfold/service/profile/users"
	"keyfold/source/httpapi"
)

// userView is the page of a user.
type userView struct {
	ID       int32
	Program  string
	Fault    string // the profile cannot be read now
	None     string // why there is none
	Erased   string
	Note     string
	Facts    []fact
	Last     time.Time // of the newest event in the profile
	LastType string
	Waiting  *waiting
	Second   string // about the second vector
	Ratios   []string

	Near     nearView
	Question question
	Without  []choice
	HalfLife []choice
	Asked    []otherwise // the profile as the viewer asks
	Events   []eventRow
	Made     []made
	Told     recommendedView
	Notified *Notified
	NotFault string // why notifications are not shown

	Rebuild, Forget bool // can be asked for
}

// What the page of a user can change, by the names of [Action].
const (
	RebuildUser = "users.rebuild"
	ForgetUser  = "users.forget"
)

type fact struct{ Name, Value string }

type eventRow struct {
	ID, Type, Of, State, Share, Width, Leave string
	At                                       time.Time
	Waits                                    bool
}

// choice is one of a list.
type choice struct {
	Value, Name string
	Chosen      bool
}

// made is a table of what the vector is made of.
type made struct {
	By   string
	Rows []sumRow
}

type sumRow struct{ Name, Share, Width, Events string }

// recommendedView is what is recommended.
type recommendedView struct {
	Asked  bool
	Fault  string
	Answer *recommend.Answer
	Rows   []place
}

func (d *Dashboard) user(r *httpapi.Request) *httpapi.Answer {
	text := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, d.config.Path), userPath)
	if text == "" {
		return d.users(r)
	}
	id, ok := userID(text)
	if !ok {
		return httpapi.Refuse(http.StatusNotFound, httpapi.Fault{Reason: "not_found", Error: "no such user: an id is a number from 1 to 2147483647"})
	}
	ctx, cancel := context.WithTimeout(r.Context(), readBound)
	defer cancel()
	v := &userView{ID: id, Program: d.sources.Users.Program, Question: questionOf(r.URL.Query())}
	v.Rebuild, v.Forget = d.offers(r, RebuildUser), d.offers(r, ForgetUser)
	d.fill(ctx, v)
	return d.page(r, "user", fmt.Sprintf("User %d", id), d.seenNow(), v)
}

// fill reads what the page shows. What cannot be read is said in its place.
func (d *Dashboard) fill(ctx context.Context, v *userView) {
	from := d.sources.Users
	v.notified(ctx, from)
	shown, err := from.Show(ctx, v.ID, 0, eventsShown)
	if err != nil {
		v.Fault = inTime("the profile", err)
		return
	}
	v.Note = shown.Note
	v.Waiting = from.waitingOf(shown.View.Events, d.config.Now())
	p := shown.View.Profile
	switch {
	case p == nil:
		v.None = shown.None
		v.events(shown.View, nil)
		return
	case p.Erased():
		v.Erased = shown.View.Headline()
		return
	}
	v.profile(shown.View)
	now := d.explained(ctx, shown.View, question{})
	v.events(shown.View, now.view)
	v.madeOf(now.view)
	v.Near = d.nearest(ctx, v, shown.View, now)
	v.choices(now.view)
	v.recommended(ctx, d, p.Version)
	if v.Question.asked() {
		v.answer(d.explained(ctx, shown.View, v.Question), now.view)
	}
}

// inTime says why something cannot be read.
func inTime(what string, err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("%s cannot be read now: no answer in %v", what, readBound)
	}
	return fmt.Sprintf("%s cannot be read now: %v", what, err)
}

func (v *userView) profile(shown *users.ProfileView) {
	p := shown.Profile
	v.Last, v.LastType = p.Updated.Time(), p.LastType.String()
	v.Facts = []fact{
		{"events", cli.Number(p.EventCount)},
		{"writes", cli.Number(int64(p.Version))},
		{"mass", fmt.Sprintf("%.4f (history %s)", p.Mass, p.History)},
		{"model", fmt.Sprintf("%s, %d dimensions", p.Model, len(p.Vector))},
	}
	v.Second = shown.Second()
}

// explanationOf is a view, or why there is none.
type explanationOf struct {
	view  *explanation.View
	fault string
}

// explained explains the profile as it is, or as a question would have it.
func (d *Dashboard) explained(ctx context.Context, shown *users.ProfileView, q question) explanationOf {
	p, from := shown.Profile, d.sources.Users
	o := explanation.Options{Near: nearKnown, Last: eventsShown, HalfLife: q.HalfLife, Together: true}
	what := "now"
	switch {
	case q.asked():
		what = fmt.Sprintf("without %s half-life %v", q.Without, q.HalfLife)
		o.Last = 0
		if q.Without != "" {
			o.Without = []string{q.Without}
		}
	case len(p.Applied.Newest()) > 0:
		o.Without = []string{explanation.LastWrite}
	}
	r := d.results.get(ctx, resultKey{p.UserID, p.Version, what}, func(ctx context.Context) (any, error) { return from.Explain(ctx, p, o) })
	switch {
	case r == nil:
		return explanationOf{fault: "it is being computed, and takes longer than usual"}
	case r.err != nil:
		return explanationOf{fault: r.err.Error()}
	}
	return explanationOf{view: r.value.(*explanation.View)}
}

// choices are what can be asked.
func (v *userView) choices(now *explanation.View) {
	add := func(all *[]choice, chosen, value, name string) {
		*all = append(*all, choice{value, name, value == chosen})
	}
	add(&v.HalfLife, v.Question.Text, "", "as it is")
	for _, span := range []string{"1h", "1d", "7d", "30d", "90d", "365d"} {
		add(&v.HalfLife, v.Question.Text, span, span)
	}
	add(&v.Without, v.Question.Without, "", "all events")
	add(&v.Without, v.Question.Without, explanation.LastWrite, "without the last write")
	add(&v.Without, v.Question.Without, explanation.LastSession, "without the last session")
	if now != nil {
		for _, sum := range now.Types {
			add(&v.Without, v.Question.Without, sum.Name, "without each "+sum.Name)
		}
	}
	for all, value := range map[*[]choice]string{&v.HalfLife: v.Question.Text, &v.Without: v.Question.Without} {
		if !slices.ContainsFunc(*all, func(c choice) bool { return c.Chosen }) {
			name := value
			if all == &v.Without {
				name = "without the event " + cli.Shorten(value, 9)
			}
			*all = append(*all, choice{value, name, true})
		}
	}
}

// events lists what the user did last, with what each event counts.
func (v *userView) events(shown *users.ProfileView, now *explanation.View) {
	shares := map[string]float64{}
	if now != nil {
		for _, part := range now.Last {
			shares[part.MessageID] = part.Share
		}
	}
	for i := range shown.Events {
		e := &shown.Events[i]
		row := eventRow{
			ID: identifier("event", e.MessageID), Type: e.Type.String(), Of: shown.Of(&e.Event), State: strings.ReplaceAll(e.State, "_", " "),
			At: e.OccurredAt.Time(), Waits: e.Waits,
		}
		if share, counts := shares[e.MessageID]; counts {
			row.Share, row.Width, row.Leave = explanation.Percent(share), width(share), e.MessageID
		}
		v.Events = append(v.Events, row)
	}
}

// madeOf tells what the vector is made of.
func (v *userView) madeOf(now *explanation.View) {
	if now == nil {
		return
	}
	v.Ratios = now.Ratios
	for _, table := range []struct {
		by   string
		sums []explanation.Sum
	}{{"by type", now.Types}, {"by category", now.Category}, {"by age at the last event", now.Ages}, {"by session", now.Sessions}} {
		one := made{By: table.by}
		for _, s := range table.sums[:min(sumsShown, len(table.sums))] {
			one.Rows = append(one.Rows, sumRow{s.Name, explanation.Percent(s.Share), width(s.Share), cli.Count(int64(s.Events), "event")})
		}
		if len(one.Rows) > 0 {
			v.Made = append(v.Made, one)
		}
	}
}

// recommended lists what is recommended, without what was bought.
func (v *userView) recommended(ctx context.Context, d *Dashboard, version int32) {
	from := d.sources.Users
	if v.Told.Asked = from.Recommend != nil; !v.Told.Asked {
		return
	}
	o := recommend.DefaultOptions()
	o.Exclude, o.Explain = recommend.ExcludeBought, true
	r := d.results.get(ctx, resultKey{v.ID, version, "recommend"}, func(ctx context.Context) (any, error) { return from.Recommend(ctx, v.ID, o) })
	switch {
	case r == nil:
		v.Told.Fault = "they are being computed, which takes longer than usual"
		return
	case r.err != nil:
		v.Told.Fault = r.err.Error()
		return
	}
	v.Told.Answer = r.value.(*recommend.Answer)
	for i, p := range v.Told.Answer.Products {
		row := place{ID: fmt.Sprintf("r%d", p.ID), Title: cmp.Or(p.Name, fmt.Sprintf("product %d", p.ID)), Place: i + 1, Cosine: fmt.Sprintf("%.3f", p.Score), Width: width(p.Score)}
		if v.Told.Answer.Basis == recommend.ByPopularity {
			row.Cosine, row.Width = cli.Number(int64(p.Score)), ""
		}
		for _, part := range p.Because {
			row.Because = append(row.Because, part.Reason())
		}
		v.Told.Rows = append(v.Told.Rows, row)
	}
}

// notified reads the user's notifications.
func (v *userView) notified(ctx context.Context, from *Users) {
	if from.Notified == nil {
		return
	}
	var err error
	if v.Notified, err = from.Notified(ctx, v.ID); err != nil {
		v.NotFault = inTime("the notifications", err)
	}
}
