package postgres

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/sink/ledger"
)

var decode = ledger.Decoder{Damaged: damaged}

// orNull returns a pointer to a value, nil for the zero one.
func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// endOfTime, the end of the year 9999, stands for all later instants: PostgreSQL refuses
// those past its own end.
const endOfTime = engine.Millis(253_402_300_799_999)

// beforeFirst and afterLast are next to what timestamptz holds, and the server refuses them.
const beforeFirst, afterLast = engine.Millis(-210_866_803_200_001), engine.Millis(9_224_318_016_000_000)

// timeOf returns an instant as it is sent. Those beyond the server's become ones that it refuses
// as well: in the binary form, 64 bits of microseconds, they would turn into others that it takes.
func timeOf(at engine.Millis) time.Time { return min(max(at, beforeFirst), afterLast).Time() }

func timeOrNull(at engine.Millis) *time.Time {
	if at == 0 {
		return nil
	}
	t := timeOf(at)
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
