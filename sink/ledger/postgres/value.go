package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/similar"
)

// orNull returns a pointer to a value, nil for the zero one.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// idOrNull returns the text of an id, nil for the zero one.
func idOrNull(id uuid.UUID) *string {
	if id == uuid.Nil {
		return nil
	}
	text := id.String()
	return &text
}

// endOfTime, the end of the year 9999, stands for all later instants: PostgreSQL refuses
// those past its own end.
const endOfTime = engine.Millis(253_402_300_799_999)

func timeOrNull(at engine.Millis) *time.Time {
	if at == 0 {
		return nil
	}
	t := at.Time()
	return &t
}

// texts returns the texts of ids, never nil.
func texts(ids []uuid.UUID) []string {
	all := make([]string, len(ids))
	for i, id := range ids {
		all[i] = id.String()
	}
	return all
}

// millisOf returns 0 for NULL.
func millisOf(t *time.Time) engine.Millis {
	if t == nil {
		return 0
	}
	return engine.Millis(t.UnixMilli())
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

var quote = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// array returns the literal of an array, nil for an empty one. unnest would flatten
// arrays of arrays, so they travel as texts.
func array[T fmt.Stringer](values []T) *string {
	if len(values) == 0 {
		return nil
	}
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = v.String()
	}
	literal := textArray(all)
	return &literal
}

func textArray(values []string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range values {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + quote.Replace(v) + `"`)
	}
	b.WriteByte('}')
	return b.String()
}

// decodeState returns nil for a user without decisions.
func decodeState(user string, b []byte) (*notify.State, error) {
	if len(b) == 0 {
		return nil, nil
	}
	s, err := notify.ReadState(b)
	if err != nil {
		return nil, damaged(fmt.Sprintf("the state of user %q", user), err)
	}
	return s, nil
}

// decodeEvent returns nil for NULL.
func decodeEvent(body *string) (*notify.Notification, error) {
	if body == nil {
		return nil, nil
	}
	e, err := notify.ParseStored([]byte(*body))
	if err != nil {
		return nil, damaged("an event", err)
	}
	return e, nil
}

// decodePrint returns the zero one for NULL.
func decodePrint(b []byte) (p similar.Print, err error) {
	if b == nil {
		return p, nil
	}
	p, rest, err := similar.Read(b)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes are left over", len(rest))
	}
	if err != nil {
		return p, damaged("a fingerprint", err)
	}
	return p, nil
}

func decodeJSON(text *string, into any) error {
	if text == nil {
		return nil
	}
	if err := json.Unmarshal([]byte(*text), into); err != nil {
		return damaged(fmt.Sprintf("a stored %T", into), err)
	}
	return nil
}

func decodeIDs(all []string) (ids []uuid.UUID, err error) {
	for _, text := range all {
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, damaged("a list of ids", err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
