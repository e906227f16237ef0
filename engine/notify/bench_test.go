package notify_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/rule"
	"keyfold/internal/testserver/must"
)

const benchNow = engine.Millis(1773144000000)

// benchSet has 200 rules, 25 of each type, of which the bench's events match the
// last one or none.
func benchSet(b *testing.B) *notify.Set {
	var rules []string
	for i := range 200 {
		rules = append(rules, fmt.Sprintf(`{"rule_id":"%s","name":"rule %d","priority":%d,"enabled":true,"version":"1.0.0","updated_by":"b",
			"conditions":{"op":"AND","rules":[{"field":"event_type","operator":"eq","value":"%s"},
				{"field":"source","operator":"in","value":["a%d","b%d"]},
				{"op":"OR","rules":[{"field":"metadata.order.total","operator":"gt","value":%d.5},{"field":"count_1h","operator":"gte","value":3}]}]},
			"action":{"outcome":"LATER","defer_strategy":"next_hour","reason_code":"WAIT_%d"}}`,
			uuid.NewSHA1(uuid.Nil, []byte{byte(i)}), i, i+1, notify.EventTypes[i%8], i, i, i, i))
	}
	document, faults := rule.Read([]byte(`{"version":"1","rules":[` + strings.Join(rules, ",") + `]}`))
	if len(faults) > 0 {
		b.Fatal(faults)
	}
	berlin, err := quiet.LoadZone("Europe/Berlin")
	must.OK(b, err)
	return rule.Compile(document, notify.Local{Zone: berlin, Morning: 8 * 60, Digests: []quiet.Clock{9 * 60, 18 * 60}})
}

func benchEvent(b *testing.B, set *notify.Set, i int) *notify.Notification {
	n, err := notify.Parse(fmt.Appendf(nil, `{"user_id":"u-17","event_type":"%s","title":"Order %d is shipped and on its way to you",
		"message":"It comes on Friday, in the afternoon. You can change place and day until tomorrow at noon.","source":"a%d",
		"channel":["push","email"],"timestamp":"2026-03-10T11:59:00Z","expires_at":"2026-03-13T12:00:00Z",
		"metadata":{"order":{"id":%d,"total":19.90},"timezone":"America/New_York"}}`,
		notify.EventTypes[i%8], i, i, i), benchNow)
	must.OK(b, err)
	n.Print = set.Policy.Print(n)
	return n
}

// benchState has as many sends and marks as a state can have.
func benchState(b *testing.B, set *notify.Set) *notify.State {
	state := &notify.State{}
	for i := range notify.MaxSends {
		n := benchEvent(b, set, 1000+i)
		state.Fold(&notify.Record{
			EventID: n.ID, Type: n.Type, Print: n.Print, Outcome: notify.Now, Reasons: []string{"X"},
			DecidedAt: benchNow - engine.Millis(notify.MaxSends-i)*4*60*1000, Facts: notify.Facts{Horizon: set.Policy.Horizon()},
		})
	}
	return state
}

// A decision with 200 rules and a full state, of all types in turn.
func BenchmarkDecide(b *testing.B) {
	set := benchSet(b)
	state := benchState(b, set)
	if len(state.Sends) != notify.MaxSends || len(state.Marks) != notify.MaxSends {
		b.Fatalf("%d sends, %d marks", len(state.Sends), len(state.Marks))
	}
	prefs := &notify.Preferences{Quiet: quiet.Hours{{From: 22 * 60, To: 7 * 60}}}
	var events []*notify.Notification
	for i := range 200 {
		events = append(events, benchEvent(b, set, i))
	}
	outcomes := map[notify.Outcome]int{}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := notify.Decide(set, prefs, state, events[i%len(events)], notify.Turn{}, notify.Score{}, benchNow)
		if i < len(events) {
			outcomes[r.Outcome]++
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
	b.Logf("outcomes: %v", outcomes)
}

func BenchmarkParse(b *testing.B) {
	body := benchEvent(b, benchSet(b), 1).Body
	b.ReportAllocs()
	for b.Loop() {
		if _, err := notify.Parse(body, benchNow); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFold(b *testing.B) {
	set := benchSet(b)
	state, event := benchState(b, set), benchEvent(b, set, 1)
	r := notify.Decide(set, &notify.Preferences{}, state, event, notify.Turn{}, notify.Score{}, benchNow)
	b.ReportAllocs()
	for b.Loop() {
		state.Fold(&r)
	}
}

func BenchmarkStateCodec(b *testing.B) {
	state := benchState(b, benchSet(b))
	text := state.Append(nil)
	b.ReportMetric(float64(len(text)), "bytes")
	b.ReportAllocs()
	for b.Loop() {
		text = state.Append(text[:0])
		if _, err := notify.ReadState(text); err != nil {
			b.Fatal(err)
		}
	}
}

// A decision by the shipped set, with its limits and topics, of a user who has got 20 in the
// last day.
func BenchmarkDecideShipped(b *testing.B) {
	document, faults := rule.Read(rule.Default())
	if document == nil {
		b.Fatal(faults)
	}
	berlin, err := quiet.LoadZone("Europe/Berlin")
	must.OK(b, err)
	set := rule.Compile(document, notify.Local{Zone: berlin, Morning: 8 * 60, Digests: []quiet.Clock{9 * 60, 18 * 60}})
	state := &notify.State{}
	for i := range 20 {
		n := benchEvent(b, set, 1000+i)
		state.Fold(&notify.Record{
			EventID: n.ID, Type: n.Type, Source: n.Source, Print: n.Print, Outcome: notify.Now, Reasons: []string{"X"}, Channels: n.Channels,
			DecidedAt: benchNow - engine.Millis(20-i)*70*60*1000, Facts: notify.Facts{Horizon: set.Policy.Horizon()},
		})
	}
	prefs := &notify.Preferences{
		Quiet:  quiet.Hours{{From: 22 * 60, To: 7 * 60}},
		Topics: map[string]notify.TopicPreference{"offers": {}},
	}
	var events []*notify.Notification
	for i := range 200 {
		events = append(events, benchEvent(b, set, i))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		notify.Decide(set, prefs, state, events[i%len(events)], notify.Turn{}, notify.Score{}, benchNow)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(float64(len(state.Append(nil))), "state-bytes")
}
