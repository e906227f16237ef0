package sqlite

import (
	"context"
	"errors"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/sink/sqlfile"
)

// The two statements take the same arguments, the update one more.
const (
	insertProfile = `INSERT INTO user_embeddings (version, embedding, dimension_count, mass,
			history, embedding_model, last_updated, last_event_type, last_message_id, event_count,
			created_at, updated_at, applied, applied_floor, embedding_short, mass_short, short_half_life, stream_marks, user_id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (user_id) DO NOTHING`

	updateProfile = `UPDATE user_embeddings SET version = ?, embedding = ?, dimension_count = ?, mass = ?,
			history = ?, embedding_model = ?, last_updated = ?, last_event_type = ?, last_message_id = ?,
			event_count = ?, created_at = ?, updated_at = ?, applied = ?, applied_floor = ?,
			embedding_short = ?, mass_short = ?, short_half_life = ?, stream_marks = ?
		WHERE user_id = ? AND version = ? AND erased_at IS NULL`

	// A tombstone stays as it is; its version grows no more, as nothing can be
	// written over it.
	writeTombstone = `INSERT INTO user_embeddings (user_id, version, erased_at) VALUES (?, 1, ?)
		ON CONFLICT (user_id) DO UPDATE SET version = version + 1, erased_at = excluded.erased_at,
			embedding = NULL, dimension_count = NULL, mass = NULL, history = NULL,
			embedding_model = NULL, last_updated = NULL, last_event_type = NULL,
			last_message_id = NULL, event_count = NULL, created_at = NULL, updated_at = NULL,
			applied = NULL, applied_floor = NULL,
			embedding_short = NULL, mass_short = NULL, short_half_life = NULL, stream_marks = NULL
		WHERE erased_at IS NULL`
)

// Swap implements [profile.Profiles]. All profiles are written in one transaction
// but each has its own outcome, unless the transaction itself fails.
func (f *File) Swap(ctx context.Context, profiles []*profile.Profile) []error {
	answers := make([]error, len(profiles))
	writes := make([]write, 0, len(profiles))
	for i, p := range profiles {
		if answers[i] = p.Acceptable(f.settings.Dimensions); answers[i] == nil {
			writes = append(writes, write{at: i, profile: p, applied: p.Applied.AppendStored(make([]byte, 0, p.Applied.Size()))})
		}
	}
	if len(writes) == 0 {
		return answers
	}
	err := f.Write(ctx, func(tx *sqlfile.Tx) error { return swapAll(tx, writes) })
	for i := range writes {
		w := &writes[i]
		// After an error the function may be running still, so what it writes
		// is not looked at.
		if err != nil {
			answers[w.at] = err
		} else {
			answers[w.at] = w.outcome
		}
	}
	return answers
}

// write is one profile on its way into the file.
type write struct {
	at      int // index in the caller's slice
	profile *profile.Profile
	applied []byte
	outcome error
}

// swapAll writes each profile. A permanent error is that profile's alone;
// any other ends the transaction.
func swapAll(tx *sqlfile.Tx, writes []write) error {
	var args [20]any
	for i := range writes {
		w := &writes[i]
		w.outcome = swap(tx, w, args[:0])
		answered := w.outcome == nil || errors.Is(w.outcome, engine.ErrConflict) || engine.KindOf(w.outcome) == engine.Permanent
		if !answered {
			return w.outcome
		}
	}
	return nil
}

func swap(tx *sqlfile.Tx, w *write, args []any) error {
	p := w.profile
	args = append(args, p.Version, encode(p.Vector), len(p.Vector), p.Mass,
		string(p.History), p.Model, int64(p.Updated), p.LastType.String(), p.LastID, p.EventCount,
		int64(p.CreatedAt), int64(p.WrittenAt), w.applied, int64(p.Applied.Floor))
	if s := p.Short; s.Vector != nil {
		args = append(args, encode(s.Vector), s.Mass, int64(s.HalfLife/time.Second))
	} else {
		args = append(args, nil, nil, nil)
	}
	args = append(args, p.Marks.AppendStored(nil), p.UserID)
	statement := insertProfile
	if p.Version != 1 {
		statement, args = updateProfile, append(args, p.Version-1)
	}
	result, err := tx.Exec(statement, args...)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return engine.ErrConflict
	}
	return err
}

// Forget implements [profile.Eraser].
func (f *File) Forget(ctx context.Context, user int32, at engine.Millis) error {
	return f.Write(ctx, func(tx *sqlfile.Tx) error {
		_, err := tx.Exec(writeTombstone, user, int64(at))
		return err
	})
}
