package profile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyfold/engine"

	"pgregory.net/rapid"
)

// All faults of an event are named, each once.
func TestEventFaults(t *testing.T) {
	now := time.Date(2026, 2, 10, 15, 0, 0, 0, time.UTC)
	long := strings.Repeat("x", MaxPhraseRunes+1)
	for body, want := range map[string]string{
		`{"user_id":1,"event_type":"product_view","product_id":7,"occurred_at":"2026-02-10T14:30:00Z"}`: "",
		`{`:  ":malformed_json",
		`{}`: "user_id:missing_field event_type:missing_field occurred_at:missing_field",
		`{"version":"2","metadata":1,"user_id":0,"event_type":"sale","product_id":0,"search_phrase":5,"occurred_at":"x","message_id":""}`: "version:unsupported_version metadata:metadata_not_object " +
			"user_id:id_out_of_range event_type:unknown_event_type product_id:id_out_of_range search_phrase:wrong_type occurred_at:bad_timestamp message_id:bad_message_id",
		`{"user_id":1,"event_type":"search","product_id":7,"occurred_at":"2026-02-10T14:30:00Z"}`:                                "search_phrase:search_without_phrase product_id:phrase_and_product",
		`{"user_id":1,"event_type":"search","product_id":7,"search_phrase":"a","occurred_at":"2026-02-10T14:30:00Z"}`:            "product_id:phrase_and_product",
		`{"user_id":1,"event_type":"search","product_id":7,"search_phrase":"` + long + `","occurred_at":"2026-02-10T14:30:00Z"}`: "product_id:phrase_and_product search_phrase:phrase_too_long",
		`{"user_id":1,"event_type":"product_click","search_phrase":"a","occurred_at":"2026-02-10T14:30:00Z"}`:                    "product_id:product_event_without_product search_phrase:phrase_and_product",
	} {
		var got []string
		for _, err := range EventFaults([]byte(body), now) {
			got = append(got, engine.FieldOf(err)+":"+engine.ReasonOf(err))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%.120s:\n got %q\nwant %q", body, strings.Join(got, " "), want)
		}
	}
}

// An event has faults where it is refused, and the refusal is the first of them.
func TestEventFaultsBeginWithTheRefusal(t *testing.T) {
	now := time.Date(2026, 2, 10, 15, 0, 0, 0, time.UTC)
	value := func(all ...string) *rapid.Generator[string] {
		return rapid.SampledFrom(append(all, "null", "7", `"x"`, "{}", "0"))
	}
	rapid.Check(t, func(t *rapid.T) {
		var members []string
		for name, values := range map[string]*rapid.Generator[string]{
			"user_id": value("1"), "event_type": value(`"search"`, `"product_view"`), "product_id": value("1"), "search_phrase": value(`"mug"`, `""`),
			"occurred_at": value(`"2026-02-10T14:30:00Z"`), "metadata": value(), "message_id": value(), "version": value(`"1.0"`),
		} {
			if rapid.IntRange(0, 5).Draw(t, name+" is there") > 0 {
				members = append(members, fmt.Sprintf("%q:%s", name, values.Draw(t, name)))
			}
		}
		body := []byte("{" + strings.Join(members, ",") + "}")
		_, err := ParseEvent(body, now)
		all := EventFaults(body, now)
		if (err == nil) != (len(all) == 0) || err != nil && all[0].Error() != err.Error() {
			t.Fatalf("%s: %v, faults %v", body, err, all)
		}
	})
}
