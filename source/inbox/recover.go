package inbox

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// recoverChunk is how many rows are read and delivered at a time.
const recoverChunk = 512

// Recover delivers every pending event, in order of arrival. It is called after
// Start and before the first Add, and returns when the last one is delivered.
//
// The deliveries carry no first-seen time: of each user at most the last
// written batch can be folded and pending (see marks), and its ids are still in
// the profile. They may leave it with the next write, though, and events of that
// user which arrived earlier and were not folded (they were held or waiting for
// a retry) would be written first. So where profiles can be read, all pending
// ids are looked up before anything is delivered, and those found are marked.
//
// Rows are read in chunks that are closed before they are delivered: a chunk
// never overlaps with the marks of an earlier one, and no long read keeps the
// write-ahead log from being recycled.
func (in *Inbox) Recover(ctx context.Context, deliver profile.Deliver) error {
	var last int64
	err := queryRow(reading(ctx, in.ports.Reader), []any{&last}, `SELECT coalesce(max(seq), 0) FROM inbox WHERE state = 0`)
	if err != nil {
		return fmt.Errorf("inbox: recover: %w", err)
	}
	if in.ports.Profiles != nil {
		if err := in.eachChunk(ctx, last, in.markFolded); err != nil {
			return fmt.Errorf("inbox: look for folded events: %w", err)
		}
	}
	err = in.eachChunk(ctx, last, func(ctx context.Context, rows []pendingRow) error {
		return in.deliverPending(ctx, deliver, rows)
	})
	if err != nil {
		return fmt.Errorf("inbox: recover: %w", err)
	}
	return nil
}

// pendingRow is a row of inbox that has no verdict.
type pendingRow struct {
	seq        int64
	messageID  string
	userID     int32
	occurredAt engine.Millis
	receivedAt engine.Millis
	body       []byte
}

// eachChunk calls fn with the pending rows up to seq last, in order.
func (in *Inbox) eachChunk(ctx context.Context, last int64, fn func(context.Context, []pendingRow) error) error {
	for after := int64(0); ; {
		rows, err := in.pendingRows(ctx, after, last)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := fn(ctx, rows); err != nil {
			return err
		}
		after = rows[len(rows)-1].seq
	}
}

func (in *Inbox) pendingRows(ctx context.Context, after, last int64) (all []pendingRow, err error) {
	err = each(reading(ctx, in.ports.Reader), func(rows *sql.Rows) error {
		var r pendingRow
		err := rows.Scan(&r.seq, &r.messageID, &r.userID, &r.occurredAt, &r.receivedAt, &r.body)
		all = append(all, r)
		return err
	}, `SELECT seq, message_id, user_id, occurred_at, received_at, `+bodyColumn+`
		FROM inbox WHERE state = 0 AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?`, after, last, recoverChunk)
	return all, err
}

func (in *Inbox) deliverPending(ctx context.Context, deliver profile.Deliver, rows []pendingRow) error {
	now := engine.MillisOf(time.Now())
	entries := make([]entry, 0, len(rows))
	deliveries := make([]profile.Delivery, 0, len(rows))
	for i := range rows {
		r := &rows[i]
		event, err := parseStored(r.body, r.messageID, r.receivedAt, r.occurredAt)
		if err != nil {
			// Written by a version that read events less strictly.
			in.logMalformed([]Arrival{{Err: err}})
			in.mark(nil, mark{r.seq, StateDead, engine.ReasonOf(err), err.Error()})
			continue
		}
		entries = append(entries, entry{inbox: in, event: event, seq: r.seq, first: now, open: true})
		deliveries = append(deliveries, entries[len(entries)-1].delivery(0))
	}
	in.mu.Lock()
	in.open += len(entries)
	in.stats.Recovered += int64(len(rows))
	in.mu.Unlock()
	if len(deliveries) == 0 {
		return nil
	}
	err := deliver(ctx, deliveries)
	if err != nil {
		in.mu.Lock()
		defer in.mu.Unlock()
		for i := range entries {
			in.release(&entries[i])
		}
	}
	return err
}

// markFolded marks the rows whose ids are in their users' profiles.
func (in *Inbox) markFolded(ctx context.Context, rows []pendingRow) error {
	folded, err := in.foldedIDs(ctx, rows)
	if err != nil {
		return err
	}
	var marks []mark
	for i := range rows {
		if folded[foldedID{rows[i].userID, profile.DigestOf(rows[i].messageID).ID()}] {
			marks = append(marks, mark{seq: rows[i].seq, state: StateFolded})
		}
	}
	if len(marks) == 0 {
		return nil
	}
	err = in.ports.Writer.Write(ctx, func(tx Tx) error { return writeMarks(tx, marks, time.Now()) })
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stats.Recovered += int64(len(marks))
	in.stats.Folded += int64(len(marks))
	return nil
}

// foldedID is an event's id: it is one user's own.
type foldedID struct {
	user int32
	id   profile.AppliedID
}

// foldedIDs returns the ids in the profiles of the rows' users.
func (in *Inbox) foldedIDs(ctx context.Context, rows []pendingRow) (map[foldedID]bool, error) {
	users := make([]int32, len(rows))
	for i := range rows {
		users[i] = rows[i].userID
	}
	slices.Sort(users)
	profiles, err := in.ports.Profiles.Load(ctx, slices.Compact(users))
	folded := map[foldedID]bool{}
	for _, p := range profiles {
		if p == nil {
			continue
		}
		for _, id := range p.Applied.IDs {
			folded[foldedID{p.UserID, id}] = true
		}
	}
	return folded, err
}
