package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"keyfold/engine"
)

// numbers are what a shard's publishing to its stream has come to, as a lease finds it.
type numbers struct {
	shard     int
	reference string
	number    int64  // the highest that was given
	stream    string // that takes the shard's events now
	last      int64  // of the groups that this stream has

	notedFor string        // the stream that the noted groups are for
	notedAt  engine.Millis // when they were noted
	noted    [][]int64     // ids of the rows of each group; the last one has the highest number
}

// numbersOf reads the numbers of leased shards, and asks the broker for its own.
func (r *Relay) numbersOf(ctx context.Context, l *lease) (map[int]*numbers, error) {
	all := map[int]*numbers{}
	err := each(ctx, l.run, func(s scanner) error {
		n, err := scanNumbers(s)
		all[n.shard] = n
		return err
	}, "SELECT shard, reference, number, stream, noted_at, noted FROM keyfold_publish_numbers WHERE shard IN ("+list(len(l.shards))+")", anyOf(l.shards)...)
	if err != nil {
		return nil, r.db.fault("read publishing numbers", err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.PublishTimeout)
	defer cancel()
	for _, shard := range l.shards {
		n := all[shard]
		if n == nil {
			return nil, engine.ConfigurationError(reasonSchema, fmt.Errorf("outbox: keyfold_publish_numbers has no row of shard %d: run %s", shard, setupCommand))
		}
		if n.stream, n.last, err = r.streams.Last(ctx, shard, n.reference); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func scanNumbers(s scanner) (*numbers, error) {
	n := &numbers{}
	var noted, at sql.NullString
	if err := s.Scan(&n.shard, &n.reference, &n.number, &n.notedFor, &at, &noted); err != nil || !noted.Valid {
		return n, err
	}
	var err error
	if n.notedAt, err = parseTime(at.String); err != nil {
		return n, err
	}
	if err := json.Unmarshal([]byte(noted.String), &n.noted); err != nil {
		return n, fmt.Errorf("outbox: the noted groups of shard %d: %w", n.shard, err)
	}
	return n, nil
}

// plan is what a batch publishes to streams.
type plan struct {
	groups  []Group
	numbers map[int]int64 // the highest noted number, by shard: the notes to clear
	resumed bool          // it was noted by another batch
}

// resume plans what another batch, of whatever process, had noted and not marked: it goes out
// again under its numbers. That the broker knows a number does not say that it keeps the group:
// in a cluster it knows it before most nodes have it, and confirms it after. A group of
// another stream than the one of now is no longer known by its number: its rows are marked as
// tried, and go out as any others.
func (r *Relay) resume(ctx context.Context, l *lease, all map[int]*numbers) (p plan, err error) {
	p.numbers, p.resumed = map[int]int64{}, true
	for _, shard := range l.shards {
		n := all[shard]
		if len(n.noted) == 0 || n.notedFor != n.stream {
			continue
		}
		p.numbers[shard] = n.number
		for i, ids := range n.noted {
			rows, err := r.noted(ctx, l, ids, n.notedAt)
			if err != nil {
				return p, r.db.fault("read noted events", err)
			}
			number := n.number - int64(len(n.noted)-1-i)
			if len(rows) > 0 {
				p.groups = append(p.groups, Group{Shard: shard, Stream: n.stream, Reference: n.reference, Number: number, Rows: rows})
			}
		}
	}
	return p, nil
}

// noted reads those of a group's rows that are to be sent still, in the group's order. The
// note itself is no attempt of theirs.
func (r *Relay) noted(ctx context.Context, l *lease, ids []int64, notedAt engine.Millis) ([]Row, error) {
	found := map[int64]stored{}
	for ids := range slices.Chunk(ids, statementRows) {
		err := each(ctx, l.run, func(s scanner) error {
			row, err := scanStored(s)
			found[row.ID] = row
			return err
		}, "SELECT "+rowColumns+" FROM user_interactions"+r.db.words.byID+" WHERE id IN ("+list(len(ids))+") AND "+unsent, anyOf(ids)...)
		if err != nil {
			return nil, err
		}
	}
	var rows []Row
	for _, id := range ids {
		row, there := found[id]
		if !there || row.Body == nil {
			continue // a row that is no event to this version goes where it may be already
		}
		if row.TriedAt >= notedAt {
			row.TriedAt = 0
		}
		rows = append(rows, row.Row)
	}
	return rows, nil
}

// errOtherRelay: another relay, which does not know yet that it has lost its lease, has noted
// groups of the shard meanwhile. The next lease finds them.
var errOtherRelay = errors.New("outbox: another relay has given numbers to events of the same users: they are published after its own")

// noteGroups notes the groups that are about to be published: whatever becomes of this
// process, the next lease of a shard finds them.
func (d *Database) noteGroups(ctx context.Context, tx *sql.Tx, groups []Group, all map[int]*numbers, now engine.Millis) error {
	noted, numbers := map[int][][]int64{}, highest(groups)
	for i := range groups {
		g := &groups[i]
		ids := make([]int64, len(g.Rows))
		for k := range g.Rows {
			ids[k] = g.Rows[k].ID
		}
		noted[g.Shard] = append(noted[g.Shard], ids)
	}
	for shard, ids := range noted {
		text, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		n := all[shard]
		changed, err := change(ctx, tx, "UPDATE keyfold_publish_numbers SET number = ?, stream = ?, noted_at = ?, noted = ? WHERE shard = ? AND number = ?",
			numbers[shard], n.stream, timeText(now), string(text), shard, n.number)
		if err != nil {
			return err
		}
		if changed != 1 {
			return errOtherRelay
		}
	}
	return nil
}

// clearNotes says that noted groups have met their fates. run is the lease's.
func clearNotes(ctx context.Context, run runner, numbers map[int]int64) error {
	if len(numbers) == 0 {
		return nil
	}
	var conditions []string
	var args []any
	for shard, number := range numbers {
		conditions = append(conditions, "shard = ? AND number = ?")
		args = append(args, shard, number)
	}
	_, err := run.ExecContext(ctx, "UPDATE keyfold_publish_numbers SET noted = NULL, noted_at = NULL WHERE "+strings.Join(conditions, " OR "), args...)
	return err
}
