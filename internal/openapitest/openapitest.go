// Package openapitest checks the answers of an HTTP server against its OpenAPI
// description.
package openapitest

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Description is a decoded OpenAPI document.
type Description map[string]any

// Parse decodes a document.
func Parse(text []byte) Description {
	var d Description
	if err := json.Unmarshal(text, &d); err != nil {
		panic(err)
	}
	return d
}

// At follows keys down from the document, and references wherever it meets them.
func (d Description) At(keys ...string) any { return d.from(map[string]any(d), keys...) }

// from follows keys down from v.
func (d Description) from(v any, keys ...string) any {
	for {
		object, _ := v.(map[string]any)
		if ref, ok := object["$ref"].(string); ok {
			v = d.At(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			continue
		}
		if len(keys) == 0 {
			return v
		}
		v, keys = object[keys[0]], keys[1:]
	}
}

// CheckAnswer checks that an answer is one that its operation has: its status, its
// headers, and all fields of its body. asked names the request.
func (d Description) CheckAnswer(t testing.TB, asked string, operation any, w *httptest.ResponseRecorder) {
	t.Helper()
	response := d.from(operation, "responses", strconv.Itoa(w.Code))
	if response == nil {
		t.Errorf("%s: status %d is not described: %s", asked, w.Code, w.Body)
		return
	}
	headers, _ := d.from(response, "headers").(map[string]any)
	for name := range headers {
		if w.Header().Get(name) == "" {
			t.Errorf("%s: %d lacks the header %s", asked, w.Code, name)
		}
	}
	if media, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";"); media == "text/html" {
		if d.from(response, "content", media) == nil && w.Body.Len() > 0 {
			t.Errorf("%s: %d: a page is not described", asked, w.Code)
		}
		return
	}
	var body any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Errorf("%s: %d: %v", asked, w.Code, err)
		return
	}
	if err := d.fits(body, d.from(response, "content", "application/json", "schema")); err != nil {
		t.Errorf("%s: %d: %.400s: %v", asked, w.Code, w.Body, err)
	}
}

// CheckReferences checks that each reference of the document leads somewhere.
func (d Description) CheckReferences(t testing.TB) {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range regexp.MustCompile(`"#/[^"]+"`).FindAllString(string(text), -1) {
		if d.At(strings.Split(strings.Trim(ref, `"#/`), "/")...) == nil {
			t.Errorf("%s leads nowhere", ref)
		}
	}
}

// CheckReasons checks that the schema Reason lists each reason in a file of Go: what the
// pattern's group matches. Fewer than least are a pattern that no longer fits the file.
func (d Description) CheckReasons(t testing.TB, file, pattern string, least int) {
	t.Helper()
	listed := d.At("components", "schemas", "Reason", "enum").([]any)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1)
	if len(found) < least {
		t.Fatalf("only %d reasons found", len(found))
	}
	for _, m := range found {
		if !slices.Contains(listed, any(m[1])) {
			t.Errorf("%s is not described", m[1])
		}
	}
}
