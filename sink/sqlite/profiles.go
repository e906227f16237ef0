package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/sink/sqlfile"
)

const profileColumns = `user_id, version, embedding, COALESCE(dimension_count, 0), COALESCE(mass, 0),
	COALESCE(history, ''), COALESCE(embedding_model, ''), COALESCE(last_updated, 0),
	COALESCE(last_event_type, ''), COALESCE(last_message_id, ''), COALESCE(event_count, 0),
	COALESCE(created_at, 0), COALESCE(updated_at, 0), applied, COALESCE(applied_floor, 0),
	COALESCE(erased_at, 0), embedding_short, COALESCE(mass_short, 0), COALESCE(short_half_life, 0), stream_marks`

const (
	// The ids travel as one JSON array, so that there is one statement for any
	// number of them.
	loadProfiles = `SELECT ` + profileColumns + ` FROM user_embeddings
		WHERE user_id IN (SELECT value FROM json_each(?))`

	pageProfiles = `SELECT ` + profileColumns + ` FROM user_embeddings
		WHERE user_id > ? ORDER BY user_id LIMIT ?`
)

// Load implements [profile.Profiles].
func (r *Reader) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	profiles := make([]*profile.Profile, len(users))
	if len(users) == 0 {
		return profiles, ctx.Err()
	}
	stored, err := sqlfile.Collect(ctx, r.Reader, scanProfile, loadProfiles, jsonIDs(users))
	if err != nil {
		return nil, err
	}
	found := make(map[int32]*profile.Profile, len(stored))
	for _, p := range stored {
		found[p.UserID] = p
	}
	for i, user := range users {
		profiles[i] = found[user]
	}
	return profiles, nil
}

// AllProfiles yields every document in the order of user ids, tombstones
// included, until the first error. Each page is as of its own reading: a user
// written meanwhile comes with the old version or the new.
func (r *Reader) AllProfiles(ctx context.Context) iter.Seq2[*profile.Profile, error] {
	return pages(ctx, r, scanProfile, func(p *profile.Profile) int32 { return p.UserID }, pageProfiles)
}

// CountProfiles returns the number of profiles, without tombstones.
func (r *Reader) CountProfiles(ctx context.Context) (int64, error) {
	return r.Count(ctx, "SELECT count(*) FROM user_embeddings WHERE erased_at IS NULL")
}

// BusiestUser returns the user with the most folded events, 0 where there is no
// profile.
func (r *Reader) BusiestUser(ctx context.Context) (int32, error) {
	n, err := r.Count(ctx, `SELECT coalesce((SELECT user_id FROM user_embeddings WHERE erased_at IS NULL
		ORDER BY event_count DESC, user_id LIMIT 1), 0)`)
	return int32(n), err
}

// jsonIDs returns ids as the argument of json_each.
func jsonIDs(ids []int32) string {
	b, _ := json.Marshal(ids) // of integers: it cannot fail
	return string(b)
}

// scanProfile reads a row of profileColumns.
func scanProfile(rows *sql.Rows) (*profile.Profile, error) {
	var (
		p                  profile.Profile
		dimensions         int
		lastType           string
		shortHalfLife      int64
		embedding, applied sql.RawBytes
		short, marks       sql.RawBytes
	)
	err := rows.Scan(&p.UserID, &p.Version, &embedding, &dimensions, &p.Mass,
		&p.History, &p.Model, &p.Updated, &lastType, &p.LastID, &p.EventCount,
		&p.CreatedAt, &p.WrittenAt, &applied, &p.Applied.Floor, &p.ErasedAt,
		&short, &p.Short.Mass, &shortHalfLife, &marks)
	if err != nil {
		return nil, err
	}
	if p.Erased() {
		return &p, nil
	}
	p.LastType = profile.ParseEventType(lastType)
	if p.Vector, err = decode[float64](embedding, dimensions); err != nil {
		return nil, damaged(p.UserID, err)
	}
	if short != nil {
		p.Short.HalfLife = time.Duration(shortHalfLife) * time.Second
		if p.Short.Vector, err = decode[float64](short, dimensions); err != nil {
			return nil, damaged(p.UserID, err)
		}
	}
	floor := p.Applied.Floor
	if p.Applied, err = profile.ReadApplied(applied); err != nil {
		return nil, damaged(p.UserID, err)
	}
	p.Applied.Floor = floor
	if p.Marks, err = profile.ReadMarks(marks); err != nil {
		return nil, damaged(p.UserID, err)
	}
	return &p, nil
}

// damaged returns a configuration fault: the row was not written by this store,
// and folding into it would make it worse.
func damaged(user int32, err error) error {
	return engine.ConfigurationError(sqlfile.ReasonCorrupt, fmt.Errorf(
		"profile of user %d is damaged: restore the file from a backup, or delete the user's row and rebuild it: %w", user, err))
}

// Now implements [profile.Profiles] with this machine's clock: the file is this
// machine's.
func (f *File) Now(ctx context.Context) (engine.Millis, error) { return engine.Now(), ctx.Err() }
