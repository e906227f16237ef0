package users

import "testing"

func TestMentioned(t *testing.T) {
	for body, want := range map[string]int32{
		`{"user_id":17,"event_type":"search"}`: 17, `{"user_id":"17"}`: 17, `{"user_id":17.0}`: 17, `{"user_id":2147483647}`: 2147483647,
		`{"user_id":17.5}`: 0, `{"user_id":-1}`: 0, `{"user_id":2147483648}`: 0, `{"user_id":null}`: 0, `{"user_id":"x17"}`: 0,
		`{"user_id":[17]}`: 0, `{"user_id":1e300}`: 0, `{"user_id":"NaN"}`: 0, `{"user":17}`: 0, `[17]`: 0, `{"user_id":17`: 0, ``: 0,
	} {
		if got := Mentioned([]byte(body)); got != want {
			t.Errorf("%s: %d, want %d", body, got, want)
		}
	}
}
