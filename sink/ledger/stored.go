package ledger

import (
	"encoding/json"
	"fmt"

	"keyfold/engine/notify"
	"keyfold/engine/notify/similar"
)

// Decoder reads the stored values that have the same form in each SQL ledger. Damaged
// returns the error of one that no ledger wrote; subject names it.
type Decoder struct {
	Damaged func(subject string, err error) error
}

// State returns nil for a user without decisions.
func (d Decoder) State(user string, b []byte) (*notify.State, error) {
	if len(b) == 0 {
		return nil, nil
	}
	s, err := notify.ReadState(b)
	if err != nil {
		return nil, d.Damaged(fmt.Sprintf("the state of user %q", user), err)
	}
	return s, nil
}

// Event returns an event in a row of a user, nil for NULL. It keeps body. The event names
// another user where that one is an alias of the row's, since a merge.
func (d Decoder) Event(user string, body []byte) (*notify.Notification, error) {
	if body == nil {
		return nil, nil
	}
	e, err := notify.ParseStored(body)
	if err != nil {
		return nil, d.Damaged("an event", err)
	}
	if user != "" && user != e.UserID {
		e.Person = user
	}
	return e, nil
}

// Print returns the zero one for NULL.
func (d Decoder) Print(b []byte) (p similar.Print, err error) {
	if b == nil {
		return p, nil
	}
	p, rest, err := similar.Read(b)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes are left over", len(rest))
	}
	if err != nil {
		return p, d.Damaged("a fingerprint", err)
	}
	return p, nil
}

// JSON changes nothing for NULL.
func (d Decoder) JSON(text []byte, into any) error {
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return d.Damaged(fmt.Sprintf("a stored %T", into), err)
	}
	return nil
}

// Responses returns nil for NULL.
func (d Decoder) Responses(text []byte) (*notify.Responses, error) {
	if len(text) == 0 {
		return nil, nil
	}
	r := new(notify.Responses)
	return r, d.JSON(text, r)
}
