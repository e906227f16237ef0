package dashboard

import (
	"net/http"
	"strings"

	"keyfold/source/httpapi"
)

// route is one page or action.
type route struct {
	path  string        // behind the prefix; behind one that ends with a slash stands an id
	name  string        // in the navigation; "": it is not there
	key   string        // pressed after g
	scope httpapi.Scope // that the token needs; 0: it is open to all
	takes string        // methods; "": GET, HEAD
	serve func(*Dashboard, *httpapi.Request) *httpapi.Answer
}

// routes returns the table of all that is answered.
func routes() []route {
	const read, admin, form, both = httpapi.ScopeRead, httpapi.ScopeAdmin, http.MethodPost, "GET, HEAD, POST"
	return []route{
		{"/", "Overview", "o", read, "", (*Dashboard).overview},
		{usersPath, "Users", "u", read, "", (*Dashboard).users},
		{userPath, "", "", read, "", (*Dashboard).user},
		{failuresPath, "Failures", "f", read, "", (*Dashboard).failures},
		{failurePath, "", "", read, both, (*Dashboard).failure},
		{notificationsPath, "Notifications", "n", read, "", (*Dashboard).notifications},
		{decisionPath, "", "", read, both, (*Dashboard).decision},
		{rulesPath, "Rules", "s", read, "", (*Dashboard).rules},
		{rulePath, "", "", read, "", (*Dashboard).rule},
		{"/workers", "Workers", "w", read, "", (*Dashboard).workers},
		{"/alerts", "Alerts", "a", read, "", (*Dashboard).alerts},
		{evaluationPath, "Evaluation", "e", read, "", (*Dashboard).evaluation},
		{auditPath, "Audit", "l", admin, "", (*Dashboard).audits},
		{"/runbook", "Runbook", "r", read, "", (*Dashboard).runbook},
		{"/search", "", "", read, "", (*Dashboard).search},
		{jobPath, "", "", admin, "", (*Dashboard).job},
		{planPath, "", "", admin, form, (*Dashboard).plan},
		{doPath, "", "", admin, form, (*Dashboard).do},
		{unlockPath, "", "", admin, form, (*Dashboard).unlock},
		{loginPath, "", "", 0, both, (*Dashboard).login},
		{logoutPath, "", "", 0, both, (*Dashboard).logout},
		{"/style.css", "", "", 0, "", asset("style.css", "text/css; charset=utf-8")},
		{"/live.js", "", "", 0, "", asset("live.js", "text/javascript; charset=utf-8")},
	}
}

// find returns the route of a path behind the prefix, nil where there is none.
func (d *Dashboard) find(path string) *route {
	for i := range d.routes {
		r := &d.routes[i]
		if path == r.path || len(r.path) > 1 && strings.HasSuffix(r.path, "/") && strings.HasPrefix(path, r.path) {
			return r
		}
	}
	return nil
}
