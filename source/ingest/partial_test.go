package ingest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/httpapi"
)

func postPartly(t testing.TB, h http.Handler, contentType, body string) (int, anyAnswer) {
	t.Helper()
	w, answer := serve(t, h, request(http.MethodPost, "/v1/events?partial=true", contentType, strings.NewReader(body)))
	return w.Code, answer
}

func TestPartial(t *testing.T) {
	bad := event("user_id", "0")
	for _, tc := range []struct {
		name, contentType, body string
		status                  int
		results                 string // of each event; "" where the request is refused as a whole
	}{
		{"all good", asJSON, "[" + view(1) + "," + view(2) + "]", 202, "accepted accepted"},
		{"one bad", asJSON, "[" + view(1) + "," + bad + "," + view(2) + "]", 202, "accepted refused accepted"},
		{"lines", asLines, view(1) + "\n{\n" + view(1) + "\nx]\n" + view(2), 202, "accepted refused duplicate refused accepted"},
		{"scalars", asJSON, "[1,null," + view(1) + "]", 202, "refused refused accepted"},
		{"none good", asJSON, "[" + bad + "," + bad + "]", 400, "refused refused"},
		{"one bad event", asJSON, bad, 400, "refused"},
		{"one good event", asJSON, view(1), 202, "accepted"},
		{"no event", asJSON, "[]", 202, ""},
		{"no JSON", asJSON, "[" + view(1) + ",{]", 400, "-"},
		{"a quotation mark missing", asJSON, `[{"a":"b},` + view(1) + "]", 400, "-"},
		{"no end", asJSON, "[" + view(1), 400, "-"},
		{"something behind", asJSON, "[" + view(1) + "]" + view(2), 400, "-"},
		{"a hole", asJSON, "[" + view(1) + ",," + view(2) + "]", 400, "-"},
		{"nothing", asJSON, " ", 400, "-"},
		{"many", asLines, strings.Repeat("{}\n", httpapi.MaxItems+1), 413, "-"},
	} {
		m := newMemory()
		h := newTestHandler(m)
		code, answer := postPartly(t, h, tc.contentType, tc.body)
		var statuses []string
		stored := 0
		for i, r := range answer.Results {
			statuses = append(statuses, r.Status)
			if r.Index != i || (r.Status == statusRefused) != (r.Reason != "") || (r.Status == statusRefused) == (r.MessageID != "") {
				t.Errorf("%s: result %d is %+v", tc.name, i, r)
			}
			if r.Status == statusAccepted {
				stored++
			}
		}
		got := strings.Join(statuses, " ")
		if len(answer.Errors) > 0 {
			got = "-"
		}
		if code != tc.status || got != tc.results || m.len() != stored || answer.Accepted != stored {
			t.Errorf("%s: %d %q with %d stored, want %d %q", tc.name, code, got, m.len(), tc.status, tc.results)
		}
		if s := &h.api.stats; got != "-" && (int(s.Accepted.Load()) != stored || int(s.Refused.Load()) != answer.Refused) {
			t.Errorf("%s: counted %d and %d", tc.name, s.Accepted.Load(), s.Refused.Load())
		}
	}
}

func TestPartialSaysWhatIsWrong(t *testing.T) {
	_, answer := postPartly(t, newTestHandler(newMemory()), asLines, view(1)+"\n"+event("user_id", "0"))
	r := answer.Results[1]
	if r.Field != "user_id" || r.Reason != engine.ReasonIDOutOfRange || r.Error == "" {
		t.Errorf("%+v", r)
	}
	_, answer = postPartly(t, newTestHandler(newMemory()), asLines, strings.Repeat("{}\n", 200))
	if answer.Results[httpapi.MaxListed-1].Error == "" || answer.Results[httpapi.MaxListed].Error != "" || answer.Results[199].Reason == "" || answer.Refused != 200 {
		t.Errorf("the first %d are described: %+v", httpapi.MaxListed, answer.Results[httpapi.MaxListed-1:httpapi.MaxListed+1])
	}
}

func TestPartialParameter(t *testing.T) {
	for query, want := range map[string]int{
		"": 400, "?": 400, "?partial=false": 400, "?partial=0": 400, "?other=1": 400, "?partial=true": 202, "?partial=1": 202,
		"?partial": 400, "?partial=": 400, "?partial=yes": 400, "?partial=true&partial=false": 400, "?partial=%zz": 400, "?partial=true;x=1": 400,
	} {
		m := newMemory()
		w, answer := serve(t, newTestHandler(m), request(http.MethodPost, "/v1/events"+query, asLines, strings.NewReader(view(1)+"\n{}")))
		if w.Code != want || (m.len() == 1) != (want == 202) {
			t.Errorf("%q: %d with %d stored, want %d", query, w.Code, m.len(), want)
		}
		bad := w.Code == 400 && answer.Errors[0].Reason == "bad_parameter"
		if wantBad := query != "" && query != "?" && want == 400 && query != "?partial=false" && query != "?partial=0" && query != "?other=1"; bad != wantBad {
			t.Errorf("%q: %+v", query, answer)
		}
	}
}

func TestPartialStoreFailure(t *testing.T) {
	m := newMemory()
	m.err = fmt.Errorf("db.internal: %w", engine.ErrAway)
	code, answer := postPartly(t, newTestHandler(m), asLines, view(1)+"\n{}")
	if code != 503 || answer.Errors[0].Reason != "store_away" {
		t.Errorf("%d %+v", code, answer)
	}
}

// picky is a store that never takes some users' events.
type picky struct {
	*memory
	users []int32
}

type rejected map[int]error

func (r rejected) Error() string           { return "rejected" }
func (r rejected) Rejected() map[int]error { return r }

func (p picky) Add(ctx context.Context, entries []profile.Entry) ([]bool, error) {
	faults := rejected{}
	for i := range entries {
		if slices.Contains(p.users, entries[i].Event.UserID) {
			faults[i] = errDisk
		}
	}
	if len(faults) > 0 {
		return nil, engine.PermanentError("store_rejected", faults)
	}
	return p.memory.Add(ctx, entries)
}

// Events that the store rejects are named, and cost no other event its place.
//
// Promise(outbox/rejected-entries)
func TestEventsTheStoreRejects(t *testing.T) {
	m := newMemory()
	h := newTestHandler(picky{m, []int32{7, 8}})
	lines := make([]string, 1000)
	for i := range lines {
		lines[i] = view(i + 100)
	}
	lines[3], lines[500], lines[999] = event("user_id", "7"), event("user_id", "8"), event("user_id", "0")
	code, answer := postPartly(t, h, asLines, strings.Join(lines, "\n"))
	if code != http.StatusAccepted || answer.Accepted != 997 || answer.Refused != 3 || m.len() != 997 {
		t.Errorf("%d: %d accepted, %d refused, %d stored", code, answer.Accepted, answer.Refused, m.len())
	}
	for i, r := range answer.Results {
		if want := i == 3 || i == 500; (r.Reason == reasonStoreRefused) != want || want && (r.Status != statusRefused || r.MessageID != "") {
			t.Errorf("event %d: %+v", i, r)
		}
	}
	w, whole := serve(t, h, request(http.MethodPost, "/v1/events", asLines, strings.NewReader(strings.Join(lines[:10], "\n"))))
	if w.Code != http.StatusBadRequest || len(whole.Errors) != 1 || whole.Errors[0].Index == nil || *whole.Errors[0].Index != 3 {
		t.Errorf("a whole request: %d %+v", w.Code, whole)
	}
	if code, answer := postPartly(t, h, asLines, lines[3]); code != http.StatusBadRequest || answer.Refused != 1 {
		t.Errorf("nothing but what the store rejects: %d %+v", code, answer)
	}
}
