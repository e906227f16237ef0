package outbox

import (
	"context"
	"database/sql"

	"keyfold/engine"
)

// commitGroups runs until the queue is closed and empty.
func (s *Store) commitGroups() {
	for first := range s.queue {
		s.commit(s.group(first))
	}
}

// group returns first and what waits behind it, within the bounds.
func (s *Store) group(first *request) []*request {
	group, rows, bytes := []*request{first}, len(first.rows), first.bytes
	for rows < s.config.GroupRows && bytes < s.config.GroupBytes {
		select {
		case r, open := <-s.queue:
			if !open {
				return group
			}
			group, rows, bytes = append(group, r), rows+len(r.rows), bytes+r.bytes
		default:
			return group
		}
	}
	return group
}

// commit stores a group in one transaction. Where one of its requests holds a
// row that never fits, each is stored alone, so that nobody is refused for
// another's row.
func (s *Store) commit(group []*request) {
	group = stillWanted(group)
	if len(group) == 0 {
		return
	}
	err := s.transact(group)
	if len(group) == 1 || engine.KindOf(err) != engine.Permanent {
		for _, r := range group {
			r.answer <- err
		}
		return
	}
	s.Stats.Split.Add(1)
	for _, r := range group {
		r.answer <- s.transact([]*request{r})
	}
}

// stillWanted drops the requests whose senders have left: nothing of theirs has
// been stored, and they have been told that it may have been.
func stillWanted(group []*request) []*request {
	kept := group[:0]
	for _, r := range group {
		if r.ctx.Err() == nil {
			kept = append(kept, r)
		}
	}
	return kept
}

func (s *Store) transact(group []*request) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	var stored, repeated int
	err := s.db.transact(ctx, "store events", func(tx *sql.Tx) error {
		rows, twice := distinct(group)
		if err := s.db.insert(ctx, tx, rows); err != nil {
			return err
		}
		stored = 0
		for _, row := range rows {
			if row.fresh {
				stored++
			}
		}
		repeated = twice + len(rows) - stored
		return nil
	})
	s.Stats.Transactions.Add(1)
	if err != nil {
		s.Stats.Failed.Add(1)
		return err
	}
	s.Stats.Requests.Add(int64(len(group)))
	s.Stats.Stored.Add(int64(stored))
	s.Stats.Repeated.Add(int64(repeated))
	if stored > 0 {
		s.config.Stored()
	}
	return nil
}

// distinct returns the group's rows in order, of each id the first, and how many
// were left out. An earlier attempt may have marked them as fresh.
func distinct(group []*request) (rows []*newRow, twice int) {
	seen := map[string]bool{}
	for _, r := range group {
		for i := range r.rows {
			row := &r.rows[i]
			row.fresh = false
			if seen[row.messageID] {
				twice++
				continue
			}
			seen[row.messageID] = true
			rows = append(rows, row)
		}
	}
	return rows, twice
}
