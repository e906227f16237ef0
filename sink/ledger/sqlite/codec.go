package sqlite

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/sink/ledger"
	"keyfold/sink/sqlfile"
)

var decode = ledger.Decoder{Damaged: damaged}

func encodeJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// damaged returns a configuration fault: the row was not written by this ledger.
func damaged(subject string, err error) error {
	return engine.ConfigurationError(sqlfile.ReasonCorrupt, fmt.Errorf("%s is damaged: restore the file from a backup: %w", subject, err))
}

// Lists of UUIDs travel to json_each, whose values unhex turns into bytes.

// hexIDs returns the argument of json_each for ids.
func hexIDs(ids []uuid.UUID) string {
	b := make([]byte, 0, len(ids)*35+2)
	for i := range ids {
		b = append(b, ",\""...)
		b = hex.AppendEncode(b, ids[i][:])
		b = append(b, '"')
	}
	if len(b) == 0 {
		return "[]"
	}
	b[0] = '['
	return string(append(b, ']'))
}

// jsonTexts returns the argument of json_each for texts.
func jsonTexts(texts []string) string {
	b, _ := json.Marshal(texts) // of strings: it cannot fail
	return string(b)
}

// blob returns the bytes of an id, NULL for the zero one.
func blob(id uuid.UUID) any {
	if id == uuid.Nil {
		return nil
	}
	return id[:]
}

// blobs returns the bytes of ids, NULL where there is none.
func blobs(ids []uuid.UUID) any {
	if len(ids) == 0 {
		return nil
	}
	b := make([]byte, 0, 16*len(ids))
	for i := range ids {
		b = append(b, ids[i][:]...)
	}
	return b
}

// idsOf returns the ids that blobs made b of.
func idsOf(b []byte) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for ; len(b) >= 16; b = b[16:] {
		ids = append(ids, uuid.UUID(b[:16]))
	}
	if len(b) > 0 {
		return nil, damaged("a list of ids", fmt.Errorf("%d bytes are left over", len(b)))
	}
	return ids, nil
}

// text returns a text, NULL for the empty one.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// millis returns an instant, NULL for 0.
func millis(at engine.Millis) any {
	if at == 0 {
		return nil
	}
	return int64(at)
}
