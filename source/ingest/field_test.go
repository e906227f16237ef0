package ingest

import (
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// event returns an event's text with these fields, given as pairs of a key and
// JSON; a later pair replaces an earlier one, and "" leaves the key out.
func event(pairs ...string) string {
	keys := []string{"user_id", "event_type", "product_id", "occurred_at"}
	values := map[string]string{"user_id": "1", "event_type": `"product_view"`, "product_id": "2", "occurred_at": `"1999-02-10T14:30:00Z"`}
	for i := 0; i < len(pairs); i += 2 {
		if _, known := values[pairs[i]]; !known {
			keys = append(keys, pairs[i])
		}
		values[pairs[i]] = pairs[i+1]
	}
	var members []string
	for _, k := range keys {
		if values[k] != "" {
			members = append(members, `"`+k+`":`+values[k])
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

var badEvents = []struct{ event, field, reason string }{
	{event("user_id", ""), "user_id", engine.ReasonMissingField},
	{event("event_type", ""), "event_type", engine.ReasonMissingField},
	{event("occurred_at", ""), "occurred_at", engine.ReasonMissingField},
	{event("user_id", "null"), "user_id", engine.ReasonWrongType},
	{event("user_id", "1.0"), "user_id", engine.ReasonWrongType},
	{event("user_id", `"1"`), "user_id", engine.ReasonWrongType},
	{event("event_type", "1"), "event_type", engine.ReasonWrongType},
	{event("product_id", "[2]"), "product_id", engine.ReasonWrongType},
	{event("product_id", "2e0"), "product_id", engine.ReasonWrongType},
	{event("search_phrase", "{}"), "search_phrase", engine.ReasonWrongType},
	{event("occurred_at", "null"), "occurred_at", engine.ReasonWrongType},
	{event("message_id", "7"), "message_id", engine.ReasonWrongType},
	{event("user_id", "0"), "user_id", engine.ReasonIDOutOfRange},
	{event("product_id", "2147483648"), "product_id", engine.ReasonIDOutOfRange},
	{event("product_id", "-1"), "product_id", engine.ReasonIDOutOfRange},
	{event("product_id", ""), "product_id", profile.ReasonProductEventNoTarget},
	{event("search_phrase", `"x"`), "search_phrase", profile.ReasonPhraseAndProduct},
	{event("event_type", `"search"`, "search_phrase", `"x"`), "product_id", profile.ReasonPhraseAndProduct},
	{event("event_type", `"search"`, "product_id", "null"), "search_phrase", profile.ReasonSearchWithoutPhrase},
	{event("event_type", `"search"`, "product_id", "null", "search_phrase", `"a\u0000"`), "search_phrase", engine.ReasonNulCharacter},
	{event("event_type", `"search"`, "product_id", "", "search_phrase", `"`+strings.Repeat("é", 256)+`"`), "search_phrase", profile.ReasonPhraseTooLong},
	{event("message_id", `"\u0000"`), "message_id", engine.ReasonNulCharacter},
	{event("message_id", `""`), "message_id", profile.ReasonBadMessageID},
	{event("event_type", `"stare"`), "event_type", engine.ReasonUnknownEventType},
	{event("metadata", "[1]"), "metadata", profile.ReasonMetadataNotObject},
	{event("version", "null"), "version", profile.ReasonUnsupportedVersion},
	{event("occurred_at", `"2025-02-30T00:00:00Z"`), "occurred_at", engine.ReasonBadTimestamp},
	{event("occurred_at", `"2025-02-10T14:30:00"`), "occurred_at", engine.ReasonTimestampNoOffset},
	{event("occurred_at", `"2999-02-10T14:30:00Z"`), "occurred_at", engine.ReasonFutureEvent},
	{event("User_ID", "1"), "", engine.ReasonWrongKeyCase},
	{event("a", "1") + "}", "", engine.ReasonTrailingData},
	{`{"a":1,"a":2}`, "", engine.ReasonDuplicateKey},
}

func TestFieldsAtFault(t *testing.T) {
	for _, tc := range badEvents {
		w, answer := post(t, newTestHandler(newMemory()), asJSON, tc.event)
		if w.Code != 400 || len(answer.Errors) != 1 || answer.Errors[0].Field != tc.field || answer.Errors[0].Reason != tc.reason {
			t.Errorf("%s: %d %+v, want %s at %q", tc.event, w.Code, answer.Errors, tc.reason, tc.field)
		}
	}
}
