package ingest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"keyfold/engine/profile"
	"keyfold/source/httpapi"
)

const (
	asJSON  = "application/json"
	asLines = "application/x-ndjson; charset=UTF-8"
)

func TestForms(t *testing.T) {
	literal := `{ "user_id" : 9, "event_type":"search","search_phrase":"{],[\"\\", "occurred_at":"2025-02-10T14:30:00Z" }`
	for _, tc := range []struct {
		name, contentType, body string
		want                    []string
	}{
		{"one event", asJSON, " " + literal + "\n", []string{literal}},
		{"an array", asJSON, "[" + literal + " ,\n" + view(1) + "\t]\r\n", []string{literal, view(1)}},
		{"an array of one", asJSON + "; charset=utf-8", "[" + view(1) + "]", []string{view(1)}},
		{"lines", asLines, "\n" + literal + "\r\n\n" + view(1) + "\n \n" + view(2), []string{literal, view(1), view(2)}},
		{"one line", asLines, view(1), []string{view(1)}},
		{"an empty array", asJSON, " [ ] ", nil},
	} {
		m := newMemory()
		w, answer := post(t, newTestHandler(m), tc.contentType, tc.body)
		if w.Code != http.StatusAccepted || answer.Accepted != len(tc.want) || answer.Duplicate != 0 || len(answer.MessageIDs) != len(tc.want) {
			t.Errorf("%s: %d %+v", tc.name, w.Code, answer)
			continue
		}
		for i, id := range answer.MessageIDs {
			checkCompleted(t, tc.want[i], m.bodies[id])
		}
	}
}

func TestDuplicates(t *testing.T) {
	h := newTestHandler(newMemory())
	w, answer := post(t, h, asJSON, "["+view(1)+","+view(2)+","+view(1)+"]")
	if w.Code != http.StatusAccepted || answer.Accepted != 2 || answer.Duplicate != 1 || answer.MessageIDs[0] != answer.MessageIDs[2] {
		t.Errorf("inside one request: %d %+v", w.Code, answer)
	}
	if _, answer = post(t, h, asLines, view(2)+"\n"+view(3)); answer.Accepted != 1 || answer.Duplicate != 1 {
		t.Errorf("across requests: %+v", answer)
	}
	if s := &h.api.stats; s.Accepted.Load() != 3 || s.Duplicate.Load() != 2 {
		t.Errorf("counted %d and %d", s.Accepted.Load(), s.Duplicate.Load())
	}
}

func TestRefusals(t *testing.T) {
	long := strings.Replace(view(1), "{", `{"note":"`+strings.Repeat("x", profile.MaxBodyBytes)+`",`, 1)
	for _, tc := range []struct {
		name, contentType, body string
		status                  int
		reasons                 string // index:reason, ...
	}{
		{"nothing", asJSON, " \n", 400, "-:empty_body"},
		{"nothing in lines", asLines, "\n\n", 400, "-:empty_body"},
		{"no JSON", asJSON, "hello", 400, "0:malformed_json"},
		{"a scalar", asJSON, "1", 400, "0:malformed_json"},
		{"two objects", asJSON, view(1) + view(2), 400, "0:trailing_data"},
		{
			"elements that are no objects", asJSON, "[1," + view(1) + `,"x",[` + view(2) + "],null]", 400,
			"0:malformed_json 2:malformed_json 3:malformed_json 4:malformed_json",
		},
		{"a hole", asJSON, "[" + view(1) + ",," + view(2) + "]", 400, "1:malformed_json"},
		{"a last comma", asJSON, "[" + view(1) + ",]", 400, "1:malformed_json"},
		{"no end", asJSON, "[" + view(1) + "," + view(2), 400, "1:malformed_json"},
		{"no end of a string", asJSON, `[{"user_id":"`, 400, "0:malformed_json"},
		{"something behind", asJSON, "[" + view(1) + "]" + view(2), 400, "1:malformed_json"},
		{"something behind an empty array", asJSON, "[]x", 400, "0:malformed_json"},
		{"wrong brackets", asJSON, `[{"user_id":]}]`, 400, "0:malformed_json 1:malformed_json"},
		{
			"several faults", asLines, view(1) + "\n{}\n" + strings.Replace(view(2), "product_view", "stare", 1), 400,
			"1:missing_field 1:missing_field 1:missing_field 2:unknown_event_type",
		},
		{"a large event", asJSON, "[" + view(2) + "," + long + "]", 413, "1:body_too_large"},
		{"a large request", asJSON, "[" + strings.Repeat(" ", httpapi.MaxRequestBytes) + "]", 413, "-:request_too_large"},
		{"many events", asLines, strings.Repeat("{}\n", httpapi.MaxItems+1), 413, "-:too_many_events"},
		{"a form", "application/x-www-form-urlencoded", view(1), 415, "-:content_type"},
		{"plain text", "text/plain", view(1), 415, "-:content_type"},
		{"no content type", "", view(1), 415, "-:content_type"},
		{"another charset", "application/json; charset=latin1", view(1), 415, "-:charset"},
	} {
		m := newMemory()
		w, answer := post(t, newTestHandler(m), tc.contentType, tc.body)
		var reasons []string
		for _, e := range answer.Errors {
			at := "-"
			if e.Index != nil {
				at = fmt.Sprint(*e.Index)
			}
			if e.Error == "" {
				t.Errorf("%s: no text", tc.name)
			}
			reasons = append(reasons, at+":"+e.Reason)
		}
		if got := strings.Join(reasons, " "); w.Code != tc.status || got != tc.reasons {
			t.Errorf("%s: %d %s, want %d %s", tc.name, w.Code, got, tc.status, tc.reasons)
		}
		if m.len() != 0 {
			t.Errorf("%s: %d events were stored all the same", tc.name, m.len())
		}
	}
}

func TestCompressedBody(t *testing.T) {
	r := request(http.MethodPost, "/v1/events", asJSON, strings.NewReader(view(1)))
	r.Header.Set("Content-Encoding", "gzip")
	if w, _ := serve(t, newTestHandler(newMemory()), r); w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("status %d", w.Code)
	}
}

func TestManyEvents(t *testing.T) {
	m := newMemory()
	w, answer := post(t, newTestHandler(m), asLines, strings.Join(views(0, httpapi.MaxItems), "\n"))
	if w.Code != http.StatusAccepted || answer.Accepted != httpapi.MaxItems || m.len() != httpapi.MaxItems {
		t.Errorf("%d, %d accepted", w.Code, answer.Accepted)
	}
	_, answer = post(t, newTestHandler(m), asLines, strings.Repeat("{}\n", httpapi.MaxItems))
	if len(answer.Errors) != 3*httpapi.MaxListed || answer.More != httpapi.MaxItems-httpapi.MaxListed {
		t.Errorf("%d errors listed and %d more", len(answer.Errors), answer.More)
	}
}

func TestMethodsAndPaths(t *testing.T) {
	h := newTestHandler(newMemory())
	for _, tc := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/v1/events", 405, "POST"},
		{"OPTIONS", "/v1/events", 405, "POST"},
		{"POST", "/livez", 405, "GET, HEAD"},
		{"GET", "/livez", 200, ""},
		{"HEAD", "/livez", 200, ""},
		{"POST", "/readyz", 405, "GET, HEAD"},
		{"GET", "/readyz", 200, ""},
		{"PUT", "/openapi.json", 405, "GET, HEAD"},
		{"GET", "/", 404, ""},
		{"POST", "/v1/events/", 404, ""},
		{"POST", "//v1/events", 404, ""},
	} {
		w, _ := serve(t, h, request(tc.method, tc.path, asJSON, strings.NewReader(view(1))))
		if w.Code != tc.status || w.Header().Get("Allow") != tc.allow {
			t.Errorf("%s %s: %d, Allow %q", tc.method, tc.path, w.Code, w.Header().Get("Allow"))
		}
		for name := range w.Header() {
			if strings.HasPrefix(name, "Access-Control") {
				t.Errorf("%s %s lets other sites in: %s", tc.method, tc.path, name)
			}
		}
	}
}

func TestStoreFailure(t *testing.T) {
	m := newMemory()
	m.err = errDisk
	h := newTestHandler(m)
	w, answer := post(t, h, asJSON, view(1))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || answer.Errors[0].Reason != "store_failed" {
		t.Errorf("%d %+v", w.Code, answer)
	}
	if strings.Contains(answer.Errors[0].Error, errDisk.Error()) {
		t.Error("the store's error is told to the sender")
	}
}

// The answer waits for the commit.
func TestAnswerFollowsTheCommit(t *testing.T) {
	m := newMemory()
	w := httptest.NewRecorder()
	m.adding = func(context.Context) {
		if w.Flushed || w.Body.Len() > 0 {
			t.Error("answered before the commit")
		}
	}
	newTestHandler(m).ServeHTTP(w, request(http.MethodPost, "/v1/events", asJSON, strings.NewReader(view(1))))
	if w.Code != http.StatusAccepted {
		t.Errorf("status %d", w.Code)
	}
}

// Concurrent senders with overlapping batches: each event is new once.
func TestConcurrentPosts(t *testing.T) {
	m := newMemory()
	h := newTestHandler(m)
	server := httptest.NewServer(h)
	defer server.Close()
	var senders sync.WaitGroup
	for sender := range 8 {
		senders.Go(func() {
			for n := range 20 {
				body := "[" + strings.Join(views(sender*20+n*5, 30), ",") + "]"
				response, err := http.Post(server.URL+"/v1/events", asJSON, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				if response.StatusCode != http.StatusAccepted {
					t.Errorf("status %d", response.StatusCode)
				}
				_ = response.Body.Close()
			}
		})
	}
	senders.Wait()
	s := &h.api.stats
	if int(s.Accepted.Load()) != m.len() || s.Accepted.Load()+s.Duplicate.Load() != 8*20*30 {
		t.Errorf("%d accepted and %d duplicates, %d stored", s.Accepted.Load(), s.Duplicate.Load(), m.len())
	}
	http.DefaultClient.CloseIdleConnections()
}
