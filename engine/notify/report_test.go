package notify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"keyfold/engine"
)

// reportNow is 2026-03-30T12:00:00Z.
const reportNow = engine.Millis(1_774_872_000_000)

var (
	someDecision = uuid.MustParse("019d3f0c-2a00-7c40-9b0e-5a1f2c3d4e5f")
	someEvent    = uuid.MustParse("018f3c2e-7d1a-7c40-9b0e-5a1f2c3d4e5f")
)

func TestParseReport(t *testing.T) {
	for body, want := range map[string]Report{
		`{"decision_id":"019d3f0c-2a00-7c40-9b0e-5a1f2c3d4e5f","status":"DELIVERED","channel":"in_app","at":"2026-03-30T11:59:59.5Z"}`: {
			Decision: someDecision, Status: Delivered, Channel: InApp, At: reportNow - 500,
		},
		`{"event_id":"018F3C2E-7D1A-7C40-9B0E-5A1F2C3D4E5F","decision_id":null,"status":"DELIVERY_FAILED","channel":null,"at":"2026-03-30T14:05:00+02:00","error":null,"more":[1]}`: {
			Event: someEvent, Status: DeliveryFailed, At: reportNow + 300_000,
		},
		`{"event_id":"018f3c2e-7d1a-7c40-9b0e-5a1f2c3d4e5f","status":"DELIVERY_FAILED","channel":"sms","at":"2026-03-30T12:00:00Z","error":"no mail\u0062ox"}`: {
			Event: someEvent, Status: DeliveryFailed, Channel: SMS, At: reportNow, Error: "no mailbox",
		},
		`{"event_id":"018f3c2e-7d1a-7c40-9b0e-5a1f2c3d4e5f","status":"DELIVERED","channel":"sms","at":"2026-03-30T12:00:00Z","error":""}`: {
			Event: someEvent, Status: Delivered, Channel: SMS, At: reportNow,
		},
	} {
		if got, err := ParseReport([]byte(body), reportNow); err != nil || got != want {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", body, got, err, want)
		}
	}
}

// Every fault of a body is named at once.
func TestFaultsOfReports(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                     "decision_id missing_field, status missing_field, at missing_field",
		`{"status":"DELIVERED"}`: "decision_id missing_field, channel missing_field, at missing_field",
		`{"decision_id":"x","event_id":"00000000-0000-0000-0000-000000000000","status":"PENDING","channel":"fax","at":"noon","error":7}`: "decision_id bad_decision_id, event_id bad_event_id, decision_id two_ids, " +
			"status unknown_status, channel unknown_channel, at bad_timestamp, error wrong_type",
		`{"Event_ID":"018f3c2e-7d1a-7c40-9b0e-5a1f2c3d4e5f","status":"DELIVERED","channel":["sms"],"at":"2026-03-30T12:05:00.001Z","error":"x"}`: "event_id wrong_key_case, " +
			"decision_id missing_field, channel wrong_type, at future_event, error error_of_delivered",
		`{"decision_id":"019d3f0c-2a00-7c40-9b0e-5a1f2c3d4e5f","status":"DELIVERY_FAILED","at":"0999-01-01T00:00:00Z","error":"\u0000` + strings.Repeat("ä", 1000) + `"}`: "error nul_character, at bad_timestamp, error too_long",
		`[]`: "malformed_json",
		`{"status":"DELIVERED","status":"DELIVERED"}`:          "duplicate_key",
		`{"more":"` + strings.Repeat("x", MaxBodyBytes) + `"}`: "body_too_large",
	} {
		_, err := ParseReport([]byte(body), reportNow)
		var got []string
		for _, f := range FaultsOf(err) {
			got = append(got, strings.TrimSpace(f.Field+" "+f.Reason))
			if !strings.Contains(f.Text, f.Field) {
				t.Errorf("the text %q does not name its field", f.Text)
			}
		}
		if strings.Join(got, ", ") != want || engine.KindOf(err) != engine.Permanent {
			t.Errorf("%.100s:\n got %s\nwant %s", body, strings.Join(got, ", "), want)
		}
	}
}

// checkReport reads a body with encoding/json beside: what is accepted says the same.
func checkReport(t *testing.T, body []byte) {
	r, err := ParseReport(body, reportNow)
	if err != nil {
		if engine.KindOf(err) != engine.Permanent || len(FaultsOf(err)) == 0 {
			t.Fatalf("%q: %v is not permanent with its faults", body, err)
		}
		return
	}
	var form struct {
		Decision *uuid.UUID `json:"decision_id"`
		Event    *uuid.UUID `json:"event_id"`
		Status   Status     `json:"status"`
		Channel  Channel    `json:"channel"`
		Error    string     `json:"error"`
	}
	if err := json.Unmarshal(body, &form); err != nil {
		t.Fatalf("%q is accepted, and is not what encoding/json reads: %v", body, err)
	}
	want := Report{Decision: value(form.Decision), Event: value(form.Event), Status: form.Status, Channel: form.Channel, At: r.At, Error: form.Error}
	if r != want {
		t.Fatalf("%q:\n got %+v\nwant %+v", body, r, want)
	}
	if (r.Decision == uuid.Nil) == (r.Event == uuid.Nil) || r.Status != Delivered && r.Status != DeliveryFailed ||
		r.At > reportNow+MaxFuture || r.Status == Delivered && (r.Channel == 0 || r.Error != "") ||
		utf8.RuneCountInString(r.Error) > MaxDeliveryErrorRunes || strings.ContainsRune(r.Error, 0) {
		t.Fatalf("%q is accepted as %+v", body, r)
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add([]byte(`{"decision_id":"019d3f0c-2a00-7c40-9b0e-5a1f2c3d4e5f","status":"DELIVERED","channel":"push","at":"2026-03-30T11:59:59.5Z"}`))
	f.Add([]byte(`{"event_id":"018f3c2e-7d1a-7c40-9b0e-5a1f2c3d4e5f","status":"DELIVERY_FAILED","at":"2026-03-30T12:00:00Z","error":"x"}`))
	f.Add([]byte(`{"Event_id":null,"status":7}`))
	f.Fuzz(checkReport)
}

// Random members in any order, of which at most two are not the first, good ones.
func TestReportsOfRandomMembers(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(rt *rapid.T) {
		values := map[string][]string{
			"decision_id": {`null`, `"` + someDecision.String() + `"`, `"x"`, `7`},
			"event_id":    {`"` + someEvent.String() + `"`, `null`},
			"status":      {`"DELIVERED"`, `"DELIVERY_FAILED"`, `"PENDING"`, `null`},
			"channel":     {`"push"`, `"email"`, `null`, `"fax"`, `[]`},
			"at":          {`"2026-03-30T12:00:00Z"`, `"2026-03-30T12:00:00+02:00"`, `"2027-01-01T00:00:00Z"`, `1`},
			"error":       {`""`, `"full"`, `null`, `"\ud800"`, `{}`},
			"more":        {`{"a":[1,2]}`},
		}
		names := rapid.Permutation(slices.Sorted(keysOf(values))).Draw(rt, "names")
		names = names[:len(names)-rapid.IntRange(0, 3).Draw(rt, "absent")]
		others := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID).Draw(rt, "others")
		var members []string
		for _, name := range names {
			value := values[name][0]
			if slices.Contains(others, name) {
				value = rapid.SampledFrom(values[name]).Draw(rt, name)
			}
			members = append(members, fmt.Sprintf("%q:%s", name, value))
		}
		body := []byte("{" + strings.Join(members, ",") + "}")
		checkReport(t, body)
		if _, err := ParseReport(body, reportNow); err == nil {
			accepted++
		}
	})
	t.Logf("%d bodies are accepted", accepted)
	if accepted == 0 {
		t.Error("no body was accepted: the test tests little")
	}
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// drawDelivery draws deliveries with many ties.
func drawDelivery(t *rapid.T, name string) Delivery {
	return Delivery{
		Status:  Status(rapid.IntRange(0, statusCount-1).Draw(t, name+" status")), //nolint:gosec // small
		Channel: Channel(rapid.IntRange(0, 2).Draw(t, name+" channel")),           //nolint:gosec // small
		At:      engine.Millis(rapid.IntRange(-1, 1).Draw(t, name+" at")),
		Error:   rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, name+" error"),
	}
}

// Follows is a strict total order over what reports say: the greatest is the same in
// whatever order they come.
//
// Promise(ledger/reports): Delivery reports give the same rows in any order and number: DELIVERED
// follows DELIVERY_FAILED, nothing goes back.
// Figure: 6 report writers, 6 mark writers, 4 erasures: 0 deadlocks in 20 runs
func TestFollowsIsATotalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawDelivery(t, "a"), drawDelivery(t, "b"), drawDelivery(t, "c")
		if a.Follows(a) {
			t.Fatalf("%+v follows itself", a)
		}
		if a.Follows(b) && b.Follows(c) && !a.Follows(c) {
			t.Fatalf("%+v follows %+v, that one %+v, and the first does not follow the last", a, b, c)
		}
		fixed := func(d Delivery) bool { return d.Status == 0 || d.Status == Suppressed }
		if !fixed(a) && !fixed(b) && a != b && a.Follows(b) == b.Follows(a) {
			t.Fatalf("%+v and %+v have no order", a, b)
		}
		if fixed(a) && (b.Follows(a) || a.Follows(b)) {
			t.Fatalf("%+v and %+v have an order", a, b)
		}
		if a.Follows(b) && a.Status < b.Status {
			t.Fatalf("%+v goes back to %+v", b, a)
		}
	})
	first, again := Delivery{Status: Delivered, At: 5}, Delivery{Status: Delivered, At: 6}
	failed, later := Delivery{Status: DeliveryFailed, At: 5}, Delivery{Status: DeliveryFailed, At: 6}
	if !first.Follows(again) || !later.Follows(failed) || !first.Follows(later) || !failed.Follows(Delivery{Status: Pending}) {
		t.Error("of two deliveries the earlier one stays, of two failures the later one")
	}
}

func TestDeliveryJSON(t *testing.T) {
	for text, d := range map[string]Delivery{
		`null`:                 {},
		`{"status":"PENDING"}`: {Status: Pending},
		`{"status":"DELIVERED","channel":"push","at":"2026-03-30T12:00:00.000Z"}`: {Status: Delivered, Channel: Push, At: reportNow},
		`{"status":"DELIVERY_FAILED","error":"EXPIRED_BEFORE_DISPATCH"}`:          {Status: DeliveryFailed, Error: ErrorExpired},
	} {
		b, err := json.Marshal(d)
		if err != nil || string(b) != text {
			t.Errorf("%+v is %s, %v, want %s", d, b, err, text)
		}
		var again Delivery
		if err := json.Unmarshal(b, &again); err != nil || again != d {
			t.Errorf("%s is read as %+v, %v", b, again, err)
		}
	}
}

func TestExplainDelivery(t *testing.T) {
	r := Record{Type: Update, UserID: "17", Outcome: Now, DecidedAt: reportNow, Channels: []Channel{Push}}
	for want, d := range map[string]Delivery{
		"No sender has reported its delivery yet.":                                {Status: Pending},
		"It was delivered by push at 12:00:05.":                                   {Status: Delivered, Channel: Push, At: reportNow + 5000},
		"Its delivery by sms failed at 00:00:00 on Tuesday, 31 March 2026: full.": {Status: DeliveryFailed, Channel: SMS, At: reportNow + engine.Millis((12 * time.Hour).Milliseconds()), Error: "full."},
		"Its delivery failed at 12:00:00.":                                        {Status: DeliveryFailed, At: reportNow},
		"It expired before it was handed to a sender, so it was not sent.":        {Status: DeliveryFailed, Error: ErrorExpired},
	} {
		if lines := Explain(&Decided{Record: r, Delivery: d}).Lines; lines[len(lines)-1] != want {
			t.Errorf("%+v: the last line is %q, want %q", d, lines[len(lines)-1], want)
		}
	}
	for _, d := range []Delivery{{}, {Status: Suppressed}} {
		if lines := Explain(&Decided{Record: r, Delivery: d}).Lines; len(lines) != len(Explain(&Decided{Record: r}).Lines) {
			t.Errorf("of %+v the explanation is %q", d, lines)
		}
	}
}
