package ingest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/source/httpapi"
)

var garbage = []string{
	"", "[", "]", "[]", "[[]]", "[,]", "[{}]", "{", "}", "null", "\xff", "\x00", "\ufeff{}", `"`, `["]`, `[{"a":"\`, `[{"a":"\"}]`,
	"[" + view(1) + "]", "[" + view(1) + "," + view(2) + "]", view(1), view(1) + "\n" + view(2), view(1) + "\r\n\r\n" + view(2) + "\r\n",
	"[" + view(1) + "\n" + view(2) + "]", "[" + view(1) + "}]", "[" + view(1) + "],", "\v" + view(1), "[\u00a0" + view(1) + "]",
	`[{"user_id":1,"event_type":"search","search_phrase":"a,b]","occurred_at":"2025-02-10T14:30:00Z"},{"a":[1,{"b":"]"}]}]`,
	strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 1000), "[" + strings.Repeat("{},", 200) + "{}]",
}

// FuzzBody: whatever comes is answered with 202, 400 or 413, and exactly what
// encoding/json sees as events is stored, byte for byte but for what it lacked.
func FuzzBody(f *testing.F) {
	for _, body := range garbage {
		f.Add([]byte(body), false)
		f.Add([]byte(body), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, lines bool) {
		contentType := asJSON
		if lines {
			contentType = asLines
		}
		m := newMemory()
		w, answer := serve(t, newTestHandler(m), request(http.MethodPost, "/v1/events", contentType, bytes.NewReader(body)))
		want, valid := reference(body, lines)
		switch w.Code {
		case http.StatusAccepted:
			if !valid || len(answer.MessageIDs) != len(want) {
				t.Fatalf("accepted %d events, want %d (valid: %v)", len(answer.MessageIDs), len(want), valid)
			}
			for i, id := range answer.MessageIDs {
				if first := slices.Index(answer.MessageIDs, id); first == i {
					checkCompleted(t, want[i], m.bodies[id])
				}
			}
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			if valid && len(want) <= httpapi.MaxItems || m.len() != 0 || len(answer.Errors) == 0 {
				t.Fatalf("%d with %d stored: %+v", w.Code, m.len(), answer)
			}
		default:
			t.Fatalf("status %d", w.Code)
		}
	})
}

// reference splits with encoding/json.
func reference(body []byte, lines bool) (texts []string, valid bool) {
	body = bytes.Trim(body, " \t\r\n")
	switch {
	case len(body) == 0:
		return nil, false
	case lines:
		for line := range strings.SplitSeq(string(body), "\n") {
			if line = strings.Trim(line, " \t\r"); line != "" {
				texts = append(texts, line)
			}
		}
	case body[0] == '[':
		var elements []json.RawMessage
		if json.Unmarshal(body, &elements) != nil {
			return nil, false
		}
		for _, e := range elements {
			texts = append(texts, string(e))
		}
	default:
		texts = []string{string(body)}
	}
	for _, text := range texts {
		if _, err := profile.ParseEvent([]byte(text), time.Now()); err != nil {
			return nil, false
		}
	}
	return texts, true
}
