package dashboard

import (
	"net/http"
	"net/url"
	"strings"

	"keyfold/source/httpapi"
)

const (
	loginPath  = "/login"
	logoutPath = "/logout"
	maxForm    = 4 << 10 // bytes
)

// loginView is the form for a token.
type loginView struct {
	Next  string // the page that was asked for, without the base
	Wrong bool   // the token is not known
}

// login takes a token once, and gives a cookie for it.
func (d *Dashboard) login(r *httpapi.Request) *httpapi.Answer {
	l := layout{Title: "Log in", Base: d.config.Path, Bare: true, Data: loginView{Next: d.within(r.URL.Query().Get("next"))}}
	if d.config.Sessions == nil {
		return d.lead("/")
	}
	if r.Method != http.MethodPost {
		return render(r, http.StatusOK, "login", l, foot{})
	}
	fields, refused := r.Form(maxForm)
	if refused != nil {
		return refused
	}
	next := d.within(fields.Get("next"))
	cookie := d.config.Sessions.Begin(strings.TrimSpace(fields.Get("token")))
	if cookie == nil {
		l.Data = loginView{Next: next, Wrong: true}
		return render(r, http.StatusUnauthorized, "login", l, foot{})
	}
	a := d.lead(next)
	a.Header.Set("Set-Cookie", cookie.String())
	return a
}

// logout ends the session in the browser.
func (d *Dashboard) logout(r *httpapi.Request) *httpapi.Answer {
	a := d.lead(loginPath)
	if d.config.Sessions != nil && r.Method == http.MethodPost {
		a.Header.Set("Set-Cookie", d.config.Sessions.End().String())
	}
	return a
}

// lead sends the browser to a page.
func (d *Dashboard) lead(path string) *httpapi.Answer {
	return &httpapi.Answer{Status: http.StatusSeeOther, Page: []byte{}, Header: http.Header{"Location": {d.config.Path + path}}}
}

// next is the page that a request without a token asked for.
func (d *Dashboard) next(r *http.Request) string {
	u := url.URL{Path: strings.TrimPrefix(r.URL.Path, d.config.Path), RawQuery: r.URL.RawQuery}
	return d.within(u.String())
}

// within returns a path of the table, with its query; another one is the overview. It leads to no
// other host.
func (d *Dashboard) within(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Host != "" || u.Scheme != "" || u.Opaque != "" || strings.HasPrefix(path, "//") {
		return "/"
	}
	if to := d.find(u.Path); to == nil || to.scope == 0 {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawQuery: u.Query().Encode()}).String()
}
