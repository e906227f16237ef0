package ingest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

func TestComplete(t *testing.T) {
	const (
		start = `{"user_id":9,"event_type":"search","search_phrase":"a,\"}{","occurred_at":"2026-02-10T14:30:00+00:00"`
		id    = `"message_id":"5ce2ebf7ec4a36ad2fa92b6cd3e3f37ccc0f9a5bd07d2b4ffcf4d19ef95cdfee"`
	)
	event, err := profile.ParseEvent([]byte(start+"}"), time.Now())
	must.OK(t, err)
	given := `"message_id":"` + event.MessageID + `"`
	for _, tc := range []struct{ name, body, want string }{
		{"nothing there", start + "}", start + `,` + given + `,"version":"1.0"}`},
		{"white space", start + "\n}", start + "\n" + `,` + given + `,"version":"1.0"}`},
		{"a version", start + `,"version":"1.0" }`, start + `,"version":"1.0" ,` + given + `}`},
		{"an id", start + `,` + id + `}`, start + `,` + id + `,"version":"1.0"}`},
		{"both", start + `,` + id + `, "version":"1.0" }`, start + `,` + id + `, "version":"1.0" }`},
		{"null", start + `,"message_id": null , "version":"1.0"}`, start + `,"message_id": "` + event.MessageID + `" , "version":"1.0"}`},
		{"null alone", `{"message_id":null,` + start[1:] + `}`, `{` + given + `,` + start[1:] + `,"version":"1.0"}`},
		{"escaped keys", start + `,"message\u005fid":"mine","versio\u006e":"1.0"}`, start + `,"message\u005fid":"mine","versio\u006e":"1.0"}`},
		{
			"keys further down", start + `,"metadata":{"message_id":"x","version":[{"version":2}]}}`,
			start + `,"metadata":{"message_id":"x","version":[{"version":2}]},` + given + `,"version":"1.0"}`,
		},
	} {
		_, whole, err := profile.CompleteEvent([]byte(tc.body), time.Now())
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		got := string(whole)
		if got != tc.want {
			t.Errorf("%s:\n%s\nbecame\n%s\nwant\n%s", tc.name, tc.body, got, tc.want)
		}
		checkCompleted(t, tc.body, got)
	}
}

// An event that becomes too large for its consumers is refused at the door.
func TestCompletedIsTooLarge(t *testing.T) {
	for _, tc := range []struct{ size, status int }{{profile.MaxBodyBytes, 413}, {profile.MaxBodyBytes - 200, 202}} {
		event := strings.Replace(view(1), "{", `{"note":"`+strings.Repeat("x", tc.size-len(view(1))-len(`"note":"",`))+`",`, 1)
		if len(event) != tc.size {
			t.Fatalf("the test's event has %d bytes", len(event))
		}
		w, answer := post(t, newTestHandler(newMemory()), asJSON, event)
		if w.Code != tc.status || tc.status == 413 && answer.Errors[0].Reason != engine.ReasonBodyTooLarge {
			t.Errorf("%d bytes: %d %+v", tc.size, w.Code, answer)
		}
	}
}

// FuzzComplete: whatever is an event stays that event, with nothing lost.
func FuzzComplete(f *testing.F) {
	f.Add([]byte(view(1)))
	f.Add([]byte(`{"user_id":1,"event_type":"search","search_phrase":"\"}","message_id":null,"occurred_at":"2025-02-10T14:30:00Z","a":[{"b":"]"}]}`))
	f.Add([]byte(` { "\u0076ersion":"1.0","user_id":1 , "event_type":"product_view","product_id":2,"occurred_at":"2025-02-10T14:30:00Z" } `))
	f.Fuzz(func(t *testing.T, body []byte) {
		before := string(body)
		event, whole, err := profile.CompleteEvent(body, time.Now())
		if parsed, parseErr := profile.ParseEvent(body, time.Now()); parsed != event || engine.ReasonOf(parseErr) != engine.ReasonOf(err) {
			t.Fatalf("%q: %+v %v, parsed %+v %v", body, event, err, parsed, parseErr)
		}
		if err != nil {
			return
		}
		checkCompleted(t, before, string(whole))
		if string(body) != before {
			t.Fatal("the body itself was changed")
		}
	})
}

// checkCompleted checks a stored body against the text it came as, with
// encoding/json.
func checkCompleted(t testing.TB, came, stored string) {
	t.Helper()
	if len(stored) > profile.MaxBodyBytes && len(came) <= profile.MaxBodyBytes {
		return // refused by whoever completes it
	}
	was, err := profile.ParseEvent([]byte(came), time.Now())
	is, errStored := profile.ParseEvent([]byte(stored), time.Now())
	if err != nil || errStored != nil || was != is {
		t.Fatalf("%q became %q: %+v %v, %+v %v", came, stored, was, err, is, errStored)
	}
	var before, after map[string]json.RawMessage
	must.OK(t, json.Unmarshal([]byte(came), &before))
	must.OK(t, json.Unmarshal([]byte(stored), &after))
	if textOf(after["message_id"]) != was.MessageID || textOf(after["version"]) != "1.0" {
		t.Fatalf("%q became %q: not complete", came, stored)
	}
	for key, value := range before {
		filled := key == "message_id" && string(value) == "null"
		if !filled && !bytes.Equal(after[key], value) {
			t.Fatalf("%q became %q: %s differs", came, stored, key)
		}
	}
	checkLiteral(t, came, stored, was.MessageID, string(before["message_id"]) == "null")
}

// textOf returns a string's text, "" for any other value.
func textOf(value json.RawMessage) (s string) {
	_ = json.Unmarshal(value, &s)
	return s
}

// checkLiteral: but for what was filled in, no byte differs.
func checkLiteral(t testing.TB, came, stored, id string, wasNull bool) {
	t.Helper()
	if wasNull {
		stored = strings.Replace(stored, `"`+id+`"`, "null", 1)
	}
	end := strings.LastIndexByte(came, '}')
	if !strings.HasPrefix(stored, came[:end]) || !strings.HasSuffix(stored, came[end:]) {
		t.Fatalf("%q became %q: rewritten", came, stored)
	}
}
