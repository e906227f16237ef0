package api

import (
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"keyfold/internal/openapitest"
)

var description = openapitest.Parse(openAPI)

var parameter = regexp.MustCompile(`\{\w+\}`)

// operationsOf returns the operations of the described path that a path is.
func operationsOf(asked string) map[string]any {
	if operations, ok := description.At("paths", asked).(map[string]any); ok {
		return operations
	}
	for template, operations := range description.At("paths").(map[string]any) {
		if matched, err := path.Match(parameter.ReplaceAllString(template, "*"), asked); err == nil && matched {
			return operations.(map[string]any)
		}
	}
	return nil
}

// checkDescribed checks that an answer is one that the description has: its method or a
// refusal of it, its status, its headers, and all fields of its body.
func checkDescribed(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	operations := operationsOf(r.URL.EscapedPath())
	if operations == nil {
		if w.Code < 400 || w.Code >= 500 {
			t.Errorf("%s is not described and answered with %d", r.URL.Path, w.Code)
		}
		return
	}
	operation, known := operations[strings.ToLower(r.Method)]
	if !known && w.Code != http.StatusMethodNotAllowed && r.Method != http.MethodHead {
		t.Errorf("%s %s is not described and answered with %d", r.Method, r.URL.Path, w.Code)
		return
	}
	for _, any := range operations {
		if operation == nil {
			operation = any
		}
	}
	description.CheckAnswer(t, r.Method+" "+r.URL.Path, operation, w)
}

// The description is served without a token; each reference leads somewhere, and each
// described path is served: to none the answer is that it does not exist.
//
// Promise(api/description): Every answer of the API's tests fits `/openapi.json`.
func TestDescription(t *testing.T) {
	w := newWorld(t, "token-of-a-test-01")
	var served map[string]any
	if status, _ := w.ask(t, call{method: "GET", path: "/openapi.json"}, &served); status != 200 || served["openapi"] != "3.1.0" {
		t.Errorf("status %d, version %v", status, served["openapi"])
	}
	description.CheckReferences(t)
	authorized := map[string]string{"Authorization": "Bearer token-of-a-test-01"}
	for template, operations := range description.At("paths").(map[string]any) {
		asked := parameter.ReplaceAllString(template, "x")
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "PATCH"} {
			status, _ := w.ask(t, call{method: method, path: asked, header: authorized}, nil)
			_, described := operations.(map[string]any)[strings.ToLower(method)]
			if described == (status == http.StatusMethodNotAllowed) || status == http.StatusNotFound {
				t.Errorf("%s %s: described %v, answered with %d", method, asked, described, status)
			}
		}
	}
}

// Each operation needs the scope that the description names: with it alone a request
// gets further, with all others it does not.
//
// Promise(api/scopes)
func TestDescribedScopes(t *testing.T) {
	tokens := map[string]string{}
	var all []string
	names := []string{"send", "read", "deliver", "admin"}
	for _, name := range names {
		tokens[name] = "token-of-a-test-" + name
		all = append(all, tokens[name]+" "+name)
	}
	w := newWorld(t, all...)
	checked := 0
	for template, operations := range description.At("paths").(map[string]any) {
		for method, operation := range operations.(map[string]any) {
			needed, _ := operation.(map[string]any)["x-scope"].(string)
			if needed == "" {
				continue
			}
			for _, name := range names {
				var refused posted
				status, header := w.ask(t, call{
					method: strings.ToUpper(method), path: parameter.ReplaceAllString(template, "x"),
					header: map[string]string{"Authorization": "Bearer " + tokens[name]},
				}, &refused)
				if (status == http.StatusForbidden) != (name != needed) {
					t.Errorf("%s %s with the scope %s: %d", method, template, name, status)
				}
				if status == http.StatusForbidden && (refused.Errors[0].Reason != "scope_missing" || !strings.Contains(header.Get("Www-Authenticate"), needed)) {
					t.Errorf("%s %s: %+v", method, template, refused.Errors)
				}
				checked++
			}
		}
	}
	if checked != 14*len(names) {
		t.Errorf("%d requests", checked)
	}
}

// Each reason of a notification or a report at fault is described.
//
// Promise(api/description)
func TestReasonsAreDescribed(t *testing.T) {
	description.CheckReasons(t, "../../../engine/notify/fault.go", `Fault\w+\s+= "(\w+)"`, 11)
}
