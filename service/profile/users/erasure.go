package users

import (
	"bytes"
	"encoding/json"
	"strconv"

	"keyfold/engine/profile"
)

// Mentioned returns whose event a body is, also where a parser of events refuses
// it: the user_id may be text or have a fraction of zero. It returns 0 where no
// user can be read.
func Mentioned(body []byte) int32 {
	var event struct {
		UserID json.RawMessage `json:"user_id"`
	}
	if json.Unmarshal(body, &event) != nil {
		return 0
	}
	n, err := strconv.ParseFloat(string(bytes.Trim(event.UserID, `"`)), 64)
	if user := int32(n); err == nil && n > 0 && float64(user) == n {
		return user
	}
	return 0
}

// Erasure says what an erasure met: the user's profile before it.
func Erasure(before *profile.Profile) string {
	switch {
	case before == nil:
		return "was never there"
	case before.Erased():
		return "was erased before"
	default:
		return "erased"
	}
}
