package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"keyfold/service/status"
	"keyfold/source/httpapi"
)

// Action is what a page can change, in two steps: what was not planned is not done.
type Action struct {
	Name string // in URLs and audit lines, the kind before a point: "failures.retry". One of a kind runs at a time
	Form int64  // bytes of the form that asks for it; 0: [maxForm]
	// Letters says that it makes a pass over dead letters: none may be in the hands of a page meanwhile.
	Letters bool

	// Plan says what would be done, and changes nothing. form is what the page asked for.
	Plan func(ctx context.Context, form url.Values, p *Progress) (*Planned, error)
	// Do does what was planned, and no more. What it has done stands in the outcome, also beside an
	// error.
	Do func(ctx context.Context, planned *Planned, p *Progress) (*Outcome, error)
}

// Planned is what an action would do.
type Planned struct {
	Title  string // as a question: "Replay 29 dead letters?"
	Lines  []string
	Tables []Titled
	Button string // with the count: "replay 29"; "": there is nothing to do
	Final  bool   // there is no way back

	By    string // who planned it, set by the page
	Of    string // what it is about, for the audit log: a filter, a user, a set
	Count int64  // of what Do changes at most
	Do    any    // what the action's Do needs
}

// Outcome is what an action has done.
type Outcome struct {
	Lines  []string
	Tables []Titled
	Count  int64 // of what was changed
}

// Titled is a table with what stands above it.
type Titled struct {
	Title string
	status.Table
}

const (
	planPath   = "/plan/" // the name of an action stands behind it
	doPath     = "/do"
	jobPath    = "/jobs/" // a number stands behind it
	unlockPath = "/unlock"
)

// acts reports whether pages offer actions to the viewer.
func (d *Dashboard) acts(r *httpapi.Request) bool {
	return d.config.Actions && r.May(httpapi.ScopeAdmin) && (d.asksNone() || d.plans.unlocked(r.Request))
}

// asksNone reports whether it is known who each viewer is, so that none is asked before an action.
func (d *Dashboard) asksNone() bool { return d.config.Sessions != nil || d.config.Named }

// offers reports whether pages offer an action to the viewer.
func (d *Dashboard) offers(r *httpapi.Request, name string) bool {
	return d.action(name) != nil && d.acts(r)
}

// action returns an action by its name, nil where there is none.
func (d *Dashboard) action(name string) *Action {
	for i := range d.sources.Actions {
		if d.sources.Actions[i].Name == name {
			return &d.sources.Actions[i]
		}
	}
	return nil
}

// locked refuses those to whom pages offer no actions; nil: they are offered.
func (d *Dashboard) locked(r *httpapi.Request) *httpapi.Answer {
	if d.acts(r) {
		return nil
	}
	return httpapi.Refuse(http.StatusForbidden, httpapi.Fault{Reason: "locked", Error: "this browser may not change anything yet: allow it on the page first, with the button beside the search field"})
}

// plan begins to count what an action would do.
func (d *Dashboard) plan(r *httpapi.Request) *httpapi.Answer {
	if refused := d.locked(r); refused != nil {
		return refused
	}
	action := d.action(strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, d.config.Path), planPath))
	if action == nil {
		return nil
	}
	form, refused := r.Form(cmp.Or(action.Form, maxForm))
	if refused != nil {
		return refused
	}
	who, back := r.Who(), d.within(form.Get("back"))
	a, _ := d.begin(r, action.Name, back, func(ctx context.Context, j *job) error {
		var planned *Planned
		err := d.apart(ctx, action, func() (err error) { planned, err = action.Plan(ctx, form, &j.progress); return err })
		if err != nil {
			return err
		}
		planned.By = who
		j.plan(planned, d.plans.keep(pending{action, planned, who, back}))
		return nil
	})
	return a
}

// do does what was planned.
func (d *Dashboard) do(r *httpapi.Request) *httpapi.Answer {
	if refused := d.locked(r); refused != nil {
		return refused
	}
	form, refused := r.Form(maxForm)
	if refused != nil {
		return refused
	}
	who, from := r.Who(), r.Address()
	name := form.Get("plan")
	p, fault := d.plans.take(name, who)
	if fault != "" {
		d.journal.add(entry{Who: who, From: from, Action: "plan", Result: "refused: " + fault})
		return httpapi.Refuse(http.StatusConflict, httpapi.Fault{Reason: "plan_unknown", Error: fault + ": nothing was done; open the page again, and plan it anew"})
	}
	a, begun := d.begin(r, p.action.Name, p.back, func(ctx context.Context, j *job) error {
		var done *Outcome
		err := d.apart(ctx, p.action, func() (err error) { done, err = p.action.Do(ctx, p.planned, &j.progress); return err })
		if done == nil {
			done = &Outcome{}
		}
		j.end(done)
		e := entry{Who: who, From: from, Action: p.action.Name, Of: p.planned.Of, Planned: p.planned.Count, Done: done.Count, Result: "done"}
		if err != nil {
			e.Result = "failed: " + err.Error()
		}
		d.journal.add(e)
		return err
	})
	if !begun {
		d.plans.giveBack(name, p)
	}
	return a
}

// apart does an action's work; where that makes a pass over dead letters, as the only pass. What pages
// show of letters may be gone then.
func (d *Dashboard) apart(ctx context.Context, action *Action, work func() error) error {
	if !action.Letters {
		return work()
	}
	defer d.index.set(func() { clear(d.index.shown) })
	return d.index.hold(ctx, work)
}

// begin begins work and leads to its page, which is mostly there at once. Where too many wait already
// it does not.
func (d *Dashboard) begin(r *httpapi.Request, name, back string, work func(context.Context, *job) error) (a *httpapi.Answer, begun bool) {
	kind, _, _ := strings.Cut(name, ".")
	j := d.jobs.begin(kind, name, r.Who(), back, work)
	if j == nil {
		return httpapi.Unavailable("busy", "others' actions wait already: try it again in a minute", nil), false
	}
	j.await(r.Context(), patience)
	return d.lead(jobPath + j.number()), true
}

// unlock lets a browser change something where no token says who may.
func (d *Dashboard) unlock(r *httpapi.Request) *httpapi.Answer {
	form, refused := r.Form(maxForm)
	if refused != nil {
		return refused
	}
	a := d.lead(d.within(form.Get("back")))
	if !d.asksNone() {
		a.Header.Set("Set-Cookie", d.plans.unlockCookie().String())
		d.journal.add(entry{Who: r.Who(), From: r.Address(), Action: "unlock", Of: d.config.Machine, Result: "this browser may change something for 12 hours"})
	}
	return a
}
