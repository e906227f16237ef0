package ingest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
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

// checkDescribed checks that an answer is one the description has: its path and
// status, its headers, and all fields of its body.
func checkDescribed(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Header().Get("Content-Type") != "application/json" || w.Header().Get(requestHeader) == "" {
		t.Errorf("%d with headers %v", w.Code, w.Header())
	}
	operations, known := at(description(), "paths", r.URL.Path).(map[string]any)
	if !known {
		return // only described paths have described answers
	}
	for _, operation := range operations {
		response := at(operation, "responses", strconv.Itoa(w.Code))
		if response == nil {
			t.Errorf("%s: status %d is not described", r.URL.Path, w.Code)
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
			t.Errorf("%s: %d: %.300s: %v", r.URL.Path, w.Code, w.Body, err)
		}
	}
}

// fits checks a value against the part of JSON Schema that the answers use.
func fits(v, schema any) error {
	s, ok := at(schema).(map[string]any)
	if !ok {
		return fmt.Errorf("%v has no schema", v)
	}
	if choices, ok := s["oneOf"].([]any); ok {
		fitting := 0
		var last error
		for _, choice := range choices {
			if err := fits(v, choice); err != nil {
				last = err
			} else {
				fitting++
			}
		}
		if fitting != 1 {
			return fmt.Errorf("%d of the choices fit: %w", fitting, last)
		}
		return nil
	}
	if c, ok := s["const"]; ok && c != v {
		return fmt.Errorf("%v is not %v", v, c)
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, v) {
		return fmt.Errorf("%v is not listed", v)
	}
	return fitsType(v, s)
}

func fitsType(v any, s map[string]any) error {
	switch v := v.(type) {
	case map[string]any:
		if s["type"] != "object" {
			return fmt.Errorf("%v should be %v", v, s["type"])
		}
		return fitsObject(v, s)
	case []any:
		if s["type"] != "array" {
			return fmt.Errorf("%v should be %v", v, s["type"])
		}
		if most, ok := s["maxItems"].(float64); ok && len(v) > int(most) {
			return fmt.Errorf("%d items", len(v))
		}
		for _, item := range v {
			if err := fits(item, s["items"]); err != nil {
				return err
			}
		}
	case string:
		if s["type"] != "string" || v == "" {
			return fmt.Errorf("%q should be %v", v, s["type"])
		}
	case float64:
		least, _ := s["minimum"].(float64)
		if s["type"] != "integer" || v != float64(int(v)) || v < least {
			return fmt.Errorf("%v should be %v of at least %v", v, s["type"], least)
		}
	default:
		return fmt.Errorf("%v is not expected", v)
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
	properties, _ := s["properties"].(map[string]any)
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

func TestDescriptionIsServed(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/openapi.json", nil)
	newTestHandler(newMemory()).ServeHTTP(w, r)
	checkDescribed(t, r, w)
	var served map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &served); err != nil || w.Code != http.StatusOK || served["openapi"] != "3.1.0" {
		t.Errorf("%d, version %v, %v", w.Code, served["openapi"], err)
	}
}

// Every reference leads somewhere, and every operation says what it needs.
func TestDescriptionIsWhole(t *testing.T) {
	for _, ref := range regexp.MustCompile(`"#/[^"]+"`).FindAllString(string(openAPI), -1) {
		if at(description(), strings.Split(strings.Trim(ref, `"#/`), "/")...) == nil {
			t.Errorf("%s leads nowhere", ref)
		}
	}
	paths := slices.Sorted(maps.Keys(at(description(), "paths").(map[string]any)))
	if want := []string{livePath, openAPIPath, readyPath, eventsPath}; !slices.Equal(paths, want) {
		t.Errorf("it describes %v, want %v", paths, want)
	}
}

// Each reason that the parser, or this package, has is described.
func TestReasonsAreDescribed(t *testing.T) {
	listed := map[string]bool{}
	for _, reason := range at(description(), "components", "schemas", "Reason", "enum").([]any) {
		listed[reason.(string)] = true
	}
	text, err := os.ReadFile("../../engine/reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Reason\w+\s+= "(\w+)"`).FindAllStringSubmatch(string(text), -1)
	if len(found) < 20 {
		t.Fatalf("only %d reasons found", len(found))
	}
	for _, m := range found {
		if !listed[m[1]] {
			t.Errorf("%s is not described", m[1])
		}
	}
}
