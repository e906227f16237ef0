package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// description is openapi.json, decoded once.
var description = sync.OnceValue(func() map[string]any {
	var d map[string]any
	if err := json.Unmarshal(openAPI, &d); err != nil {
		panic(err)
	}
	return d
})

// at follows keys down from v, and references wherever it meets them.
func at(v any, keys ...string) any {
	for {
		object, _ := v.(map[string]any)
		if ref, ok := object["$ref"].(string); ok {
			v = at(description(), strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			continue
		}
		if len(keys) == 0 {
			return v
		}
		v, keys = object[keys[0]], keys[1:]
	}
}

var parameter = regexp.MustCompile(`\{\w+\}`)

// operationsOf returns the operations of the described path that a path is.
func operationsOf(asked string) map[string]any {
	for template, operations := range at(description(), "paths").(map[string]any) {
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
	response := at(operation, "responses", strconv.Itoa(w.Code))
	if response == nil {
		t.Errorf("%s %s: status %d is not described: %s", r.Method, r.URL.Path, w.Code, w.Body)
		return
	}
	headers, _ := at(response, "headers").(map[string]any)
	for name := range headers {
		if w.Header().Get(name) == "" {
			t.Errorf("%s: %d lacks the header %s", r.URL.Path, w.Code, name)
		}
	}
	var body any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Errorf("%s: %d: %v", r.URL.Path, w.Code, err)
		return
	}
	if err := fits(body, at(response, "content", "application/json", "schema")); err != nil {
		t.Errorf("%s %s: %d: %.400s: %v", r.Method, r.URL.Path, w.Code, w.Body, err)
	}
}

// fits checks a value against the part of JSON Schema that the description uses.
func fits(v, schema any) error {
	s, ok := at(schema).(map[string]any)
	if !ok {
		return fmt.Errorf("%v has no schema", v)
	}
	if choices, ok := s["oneOf"].([]any); ok {
		var fitting []any
		var last error
		for _, choice := range choices {
			if err := fits(v, choice); err != nil {
				last = err
			} else {
				fitting = append(fitting, choice)
			}
		}
		if len(fitting) != 1 {
			return fmt.Errorf("%d of the choices fit: %w", len(fitting), last)
		}
		return nil
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, v) {
		return fmt.Errorf("%v is not listed", v)
	}
	types, ok := s["type"].([]any)
	if !ok {
		types = []any{s["type"]}
	}
	kind := ""
	switch v := v.(type) {
	case nil:
		kind = "null"
	case bool:
		kind = "boolean"
	case string:
		kind = "string"
	case float64:
		if kind = "number"; v == float64(int64(v)) && !slices.Contains(types, any("number")) {
			kind = "integer"
		}
	case []any:
		kind = "array"
		for _, item := range v {
			if err := fits(item, s["items"]); err != nil {
				return err
			}
		}
	case map[string]any:
		if kind = "object"; s["properties"] != nil {
			if err := fitsObject(v, s); err != nil {
				return err
			}
		}
	}
	if !slices.Contains(types, any(kind)) {
		return fmt.Errorf("%v is of type %s, expected %v", v, kind, types)
	}
	return nil
}

func fitsObject(v, s map[string]any) error {
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s is missing", name)
		}
	}
	properties := s["properties"].(map[string]any)
	for name, value := range v {
		schema, ok := properties[name]
		if !ok && s["additionalProperties"] == false {
			return fmt.Errorf("%s is not described", name)
		}
		if ok {
			if err := fits(value, schema); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// The description is served without a token; each reference leads somewhere, and each
// described path is served: to none the answer is that it does not exist.
func TestDescription(t *testing.T) {
	w := newWorld(t, "token-of-a-test-01")
	var served map[string]any
	if status, _ := w.ask(t, call{method: "GET", path: "/openapi.json"}, &served); status != 200 || served["openapi"] != "3.1.0" {
		t.Errorf("status %d, version %v", status, served["openapi"])
	}
	for _, ref := range regexp.MustCompile(`"#/[^"]+"`).FindAllString(string(openAPI), -1) {
		if at(description(), strings.Split(strings.Trim(ref, `"#/`), "/")...) == nil {
			t.Errorf("%s leads nowhere", ref)
		}
	}
	authorized := map[string]string{"Authorization": "Bearer token-of-a-test-01"}
	for template, operations := range at(description(), "paths").(map[string]any) {
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
	for template, operations := range at(description(), "paths").(map[string]any) {
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
	if checked != 7*len(names) {
		t.Errorf("%d requests", checked)
	}
}

// Each reason of a notification or a report at fault is described.
func TestReasonsAreDescribed(t *testing.T) {
	var listed []string
	for _, reason := range at(description(), "components", "schemas", "Reason", "enum").([]any) {
		listed = append(listed, reason.(string))
	}
	text, err := os.ReadFile("../../../engine/notify/fault.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Fault\w+\s+= "(\w+)"`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 11 {
		t.Fatalf("only %d reasons found", len(found))
	}
	for _, m := range found {
		if !slices.Contains(listed, m[1]) {
			t.Errorf("%s is not described", m[1])
		}
	}
}
