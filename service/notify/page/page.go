package page

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/service/notify/link"
	"keyfold/service/notify/preference"
	"keyfold/sink/ledger"
	"keyfold/source/httpapi"
)

// Pages answer requests of users.
type Pages struct {
	// Now is the machine's clock, or another one, set before the first request.
	Now func() engine.Millis

	store  preference.Store
	sets   notify.Sets
	links  *link.Links
	origin http.CrossOriginProtection
}

// New returns the pages of a store, for tokens of links. Topics are those of the set in force.
func New(store preference.Store, sets notify.Sets, links *link.Links) (*Pages, error) {
	p := &Pages{Now: engine.Now, store: preference.Follow(store), sets: sets, links: links}
	// A proxy in front may name another host to this server than the browser knows.
	if err := p.origin.AddTrustedOrigin(links.Origin()); err != nil {
		return nil, engine.ConfigurationError("notify_links", err)
	}
	return p, nil
}

// Paths are those of the pages. They need no bearer token.
func (p *Pages) Paths() []string { return []string{link.PreferencesPath, link.UnsubscribePath} }

// maxForm bounds a form: 64 topics with 4 channels are below 20 KB, and each field is there
// twice.
const maxForm = 128 << 10

// Serve answers a request to one of the paths.
func (p *Pages) Serve(r *httpapi.Request) *httpapi.Answer {
	post := r.Method == http.MethodPost
	if !post && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return httpapi.RefuseMethod(r.Method, "GET, HEAD, POST")
	}
	if r.URL.Path == link.UnsubscribePath {
		return p.unsubscribe(r, post)
	}
	if post {
		return p.save(r)
	}
	query := r.URL.Query()
	v, stored, refused := p.preferences(r, query.Get("t"))
	if refused != nil {
		return refused
	}
	e := &editor{v.set, v.now}
	page := e.view(e.fields(&stored.Own), &stored.Own, nil)
	page.Token, page.Version, page.Saved = v.token, stored.Version, query.Get("saved") != ""
	return render(http.StatusOK, "preferences", page)
}

// visit is a request whose token is good.
type visit struct {
	link.Grant
	token string
	set   *notify.Set
	now   engine.Millis
}

// open reads a token, or answers in words for the user.
func (p *Pages) open(token string, purpose link.Purpose) (visit, *httpapi.Answer) {
	v := visit{token: token, now: p.Now(), set: p.sets.Current()}
	var err error
	v.Grant, err = p.links.Read(token, v.now)
	switch {
	case errors.Is(err, link.ErrExpired):
		return v, say(http.StatusGone, "This link has expired",
			"Links to your notification preferences can be used for some weeks.",
			"Open the link in a newer message, or change your preferences in your account.")
	case err != nil || v.Purpose != purpose:
		return v, say(http.StatusForbidden, "This link does not work",
			"It may have been cut off when it was copied.",
			"Open it from the message again, or change your preferences in your account.")
	case v.set == nil:
		return v, away(nil)
	}
	return v, nil
}

// away answers where the preferences cannot be read or written now.
func away(err error) *httpapi.Answer {
	answer := say(http.StatusServiceUnavailable, "This does not work at the moment",
		"Your preferences cannot be read or changed now. Nothing was changed.", "Try again in a few minutes.")
	later := httpapi.Unavailable("store_away", "", err)
	answer.Header["Retry-After"], answer.Cause = later.Header["Retry-After"], err
	return answer
}

func erased() *httpapi.Answer {
	return say(http.StatusGone, "Your data was erased", "There are no preferences any more, and you get no notifications.")
}

// failed answers where a change was not made.
func failed(err error) *httpapi.Answer {
	if engine.ReasonOf(err) == ledger.ReasonUserErased {
		return erased()
	}
	return away(err)
}

// preferences reads a token for preferences, and those of its user.
func (p *Pages) preferences(r *httpapi.Request, token string) (v visit, stored ledger.Preferences, refused *httpapi.Answer) {
	if v, refused = p.open(token, link.Preferences); refused == nil {
		stored, refused = p.read(r, v.User)
	}
	return v, stored, refused
}

func (p *Pages) read(r *httpapi.Request, user string) (ledger.Preferences, *httpapi.Answer) {
	stored, err := p.store.Preferences(r.Context(), user)
	if err != nil {
		return stored, away(err)
	}
	if stored.Erased {
		return stored, erased()
	}
	return stored, nil
}

// save stores what a form says, and leads back to the page.
func (p *Pages) save(r *httpapi.Request) *httpapi.Answer {
	if !p.sameOrigin(r.Request) {
		return say(http.StatusForbidden, "Nothing was changed", "The form was sent from another site.", "Open the link from the message again, and change your preferences there.")
	}
	typed, refused := r.Form(maxForm)
	if refused != nil {
		return p.InWords(refused)
	}
	v, stored, refused := p.preferences(r, typed.Get("t"))
	if refused != nil {
		return refused
	}
	e := &editor{v.set, v.now}
	if typed.Get(fieldVersion) != strconv.FormatInt(stored.Version, 10) {
		return e.conflict(v.token, typed, stored)
	}
	own, wrong := e.apply(typed, &stored.Own)
	if len(wrong) > 0 {
		page := e.view(typed, &stored.Own, wrong)
		page.Token, page.Version = v.token, stored.Version
		page.Title = "Not saved: notification preferences"
		return render(http.StatusUnprocessableEntity, "preferences", page)
	}
	if stored.Version == 0 || !preference.Same(own, stored.Own) {
		_, err := p.store.UpdatePreferences(r.Context(), v.User, stored.Version, own)
		if _, other := errors.AsType[*ledger.VersionError](err); other {
			if stored, refused = p.read(r, v.User); refused != nil {
				return refused
			}
			return e.conflict(v.token, typed, stored)
		}
		if err != nil {
			return failed(err)
		}
	}
	// The address is relative: a proxy in front may serve the page in a folder.
	return &httpapi.Answer{Status: http.StatusSeeOther, Page: []byte{}, Header: http.Header{
		"Location": {link.PreferencesPath[1:] + "?" + url.Values{"t": {v.token}, "saved": {"1"}}.Encode()},
	}}
}

// sameOrigin reports whether a form was sent from the page itself. A page without a referrer
// has the origin null; only browsers from before 2023 say no more than that, and the token in
// the form, which another site does not know, is what is left to go by.
func (p *Pages) sameOrigin(r *http.Request) bool {
	if r.Header.Get("Origin") == "null" && r.Header.Get("Sec-Fetch-Site") == "" {
		return true
	}
	return p.origin.Check(r) == nil
}

// conflict shows a form again that was made from former preferences.
func (e *editor) conflict(token string, typed url.Values, stored ledger.Preferences) *httpapi.Answer {
	was, err := url.ParseQuery(typed.Get(fieldWas))
	if err != nil {
		was = nil // all of the form stands over the present ones
	}
	present := e.fields(&stored.Own)
	for _, name := range []string{"t", fieldVersion, fieldWas} {
		typed.Del(name)
	}
	merged, differ := merge(was, typed, present)
	page := e.view(merged, &stored.Own, nil)
	page.Token, page.Version, page.Newer = token, stored.Version, true
	for _, field := range differ {
		page.Differ = append(page.Differ, e.describe(field, present))
	}
	page.Title = "Not saved: notification preferences"
	return render(http.StatusConflict, "preferences", page)
}

// InWords answers with a page in place of a refusal for programs.
func (p *Pages) InWords(refused *httpapi.Answer) *httpapi.Answer {
	text := "It could not be read."
	if faults, ok := refused.Body.(httpapi.Refusal); ok {
		text = faults.Errors[0].Error
	}
	answer := say(refused.Status, "Nothing was changed", "The form was not taken: "+text+".", "Open the link from the message again.")
	if refused.Status == http.StatusTooManyRequests || refused.Status == http.StatusServiceUnavailable {
		answer = say(refused.Status, "Too many requests", "This page is asked for too often at the moment. Nothing was changed.", "Try again in a few minutes.")
	}
	for name, values := range refused.Header {
		answer.Header[name] = values
	}
	answer.Cause = refused.Cause
	return answer
}
