package ingest

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/openapitest"
)

var description = openapitest.Parse(openAPI)

// checkDescribed checks that an answer is one the description has: its path and
// status, its headers, and all fields of its body.
func checkDescribed(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Header().Get("Content-Type") != "application/json" || w.Header().Get(engine.HeaderRequestID) == "" {
		t.Errorf("%d with headers %v", w.Code, w.Header())
	}
	operations, _ := description.At("paths", r.URL.Path).(map[string]any)
	for _, operation := range operations { // of a path that is not described none
		description.CheckAnswer(t, r.URL.Path, operation, w)
	}
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
	description.CheckReferences(t)
	paths := slices.Sorted(maps.Keys(description.At("paths").(map[string]any)))
	if want := []string{"/livez", "/openapi.json", "/readyz", eventsPath}; !slices.Equal(paths, want) {
		t.Errorf("it describes %v, want %v", paths, want)
	}
}

// Each reason that the parser has is described.
func TestReasonsAreDescribed(t *testing.T) {
	description.CheckReasons(t, "../../engine/reasons.go", `Reason\w+\s+= "(\w+)"`, 15)
	description.CheckReasons(t, "../../engine/profile/event_reasons.go", `Reason\w+\s+= "(\w+)"`, 7)
}

func TestDescriptionNamesEveryEventType(t *testing.T) {
	var want []any
	for _, eventType := range profile.EventTypes() {
		want = append(want, eventType.String())
	}
	if got := description.At("components", "schemas", "Event", "properties", "event_type", "enum"); !reflect.DeepEqual(got, want) {
		t.Errorf("it describes the types %v, want %v", got, want)
	}
}
