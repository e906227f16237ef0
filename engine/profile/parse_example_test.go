package profile_test

import (
	"fmt"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

func ExampleParseEvent() {
	now := time.Date(2026, 2, 10, 15, 0, 0, 0, time.UTC)
	body := `{"user_id":12345,"event_type":"search","search_phrase":"hiking boots",
		"occurred_at":"2026-02-10T15:30:00.2509+01:00","metadata":{"device":"mobile"}}`

	e, err := profile.ParseEvent([]byte(body), now)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.UserID, e.Type, e.Phrase)
	fmt.Println(e.OccurredAt.Time().Format(time.RFC3339Nano))
	fmt.Println(e.MessageID == profile.MessageID(12345, profile.Search, "hiking boots", "2026-02-10T15:30:00.2509+01:00"))
	// Output:
	// 12345 search hiking boots
	// 2026-02-10T14:30:00.25Z
	// true
}

func ExampleParseEvent_refused() {
	body := `{"user_id":"12345","event_type":"search","search_phrase":"hiking boots","occurred_at":"2026-02-10T15:30:00Z"}`

	_, err := profile.ParseEvent([]byte(body), time.Now())
	fmt.Println(engine.KindOf(err), engine.ReasonOf(err))
	fmt.Println(err)
	// Output:
	// permanent wrong_type
	// user_id: found a string, expected a number
}
