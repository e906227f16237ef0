package inbox

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// writeMarks writes one UPDATE per state and deletes the bodies that the sources
// keep: the rows travel as one JSON array, which binds once however many they are.
func writeMarks(tx Tx, marks []mark, now time.Time) error {
	at := int64(engine.MillisOf(now))
	var bySeq [len(stateNames)][]byte
	for i := range marks {
		m := &marks[i]
		if m.state == StateDead {
			if err := copyToDead(tx, m, at); err != nil {
				return err
			}
		}
		bySeq[m.state] = append(bySeq[m.state], ',')
		bySeq[m.state] = strconv.AppendInt(bySeq[m.state], m.seq, 10)
	}
	for state, list := range bySeq {
		if len(list) == 0 {
			continue
		}
		list[0] = '['
		seqs := string(append(list, ']'))
		_, err := tx.Exec(`UPDATE inbox SET state = ?, settled_at = ? WHERE seq IN (SELECT value FROM json_each(?))`,
			int64(state), at, seqs)
		if err != nil {
			return err
		}
		// EXISTS is looked at once: a replay, which leaves the table empty, pays nothing.
		_, err = tx.Exec(`DELETE FROM pending_bodies
			WHERE EXISTS (SELECT 1 FROM pending_bodies) AND seq IN (SELECT value FROM json_each(?))`, seqs)
		if err != nil {
			return err
		}
	}
	return nil
}

// copyToDead copies an event into dead, unless an earlier transaction did.
func copyToDead(tx Tx, m *mark, at int64) error {
	l := deadLetter{reason: m.reason, detail: m.detail}
	err := queryRow(tx.Query, []any{&l.messageID, &l.userID, &l.body},
		`SELECT message_id, user_id, `+bodyColumn+` FROM inbox WHERE seq = ? AND state <> ?`, m.seq, int64(StateDead))
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.insert(tx, at)
}

// deadLetter is a row of dead that is to be written.
type deadLetter struct {
	messageID      any // string, or nil for a body that has none
	userID         any // int64, or nil
	reason, detail string
	body           []byte
	origin         Origin
}

// insert adds the letter, or counts a repeated body, whose last place it keeps. A
// body over the limit of an event is kept up to it; its hash is of the whole.
func (l *deadLetter) insert(tx Tx, at int64) error {
	hash := sha256.Sum256(l.body)
	kept := append([]byte{}, l.body[:min(len(l.body), profile.MaxBodyBytes)]...) // never nil: the column is NOT NULL
	_, err := tx.Exec(`INSERT INTO dead (body_hash, message_id, user_id, reason, detail, body, first_at, last_at, file, line)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (body_hash) DO UPDATE SET times = times + 1, last_at = excluded.last_at,
			reason = excluded.reason, detail = excluded.detail, file = excluded.file, line = excluded.line`,
		hash[:], l.messageID, l.userID, l.reason, l.detail, kept, at, at, l.origin.Name, l.origin.Line)
	return err
}
