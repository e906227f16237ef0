package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
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

// commit stores a group in one transaction. Where the database rejects a row,
// or another transaction holds one that a row refers to, the requests are stored
// apart, so that no request fails for another's row.
func (s *Store) commit(group []*request) {
	// Nothing of a sender that has left is stored: it was told that it may have been.
	group = slices.DeleteFunc(group, func(r *request) bool { return r.ctx.Err() != nil })
	if len(group) == 0 {
		return
	}
	err := s.transact(group, s.together)
	if errors.Is(err, errApart) {
		s.Stats.Split.Add(1)
		err = s.transact(group, s.apart)
	}
	for _, r := range group {
		r.answer <- cmp.Or(err, r.fault)
	}
}

// transact runs one way of storing a group, which marks fresh rows and sets the
// fault of each request that is not stored, in a transaction.
func (s *Store) transact(group []*request, way func(context.Context, *sql.Tx, []*request) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	began := time.Now()
	err := s.db.transact(ctx, "store events", func(tx *sql.Tx) error {
		for _, r := range group {
			r.begin()
		}
		return way(ctx, tx, group)
	})
	s.Stats.transaction.Observe(time.Since(began))
	s.Stats.Transactions.Add(1)
	if err != nil {
		s.Stats.Failed.Add(1)
		return err
	}
	s.count(group)
	return nil
}

func (s *Store) count(group []*request) {
	anything := false
	for _, r := range group {
		if r.fault != nil {
			continue
		}
		s.Stats.Requests.Add(1)
		for i := range r.rows {
			if r.rows[i].fresh {
				anything = true
				s.Stats.Stored.Add(1)
			} else {
				s.Stats.Repeated.Add(1)
			}
		}
	}
	if anything {
		s.config.Stored()
	}
}

// errApart: the group cannot be stored as one.
var errApart = errors.New("outbox: one of the requests cannot be stored")

// together stores all of a group's rows at once.
func (s *Store) together(ctx context.Context, tx *sql.Tx, group []*request) error {
	rows := distinct(group)
	err := s.db.insert(ctx, tx, rows)
	if err == nil && slices.ContainsFunc(rows, func(row *newRow) bool { return row.fault != nil }) ||
		err != nil && s.db.dialect.classify(err) == classLocked {
		return errApart
	}
	return err
}

// apart stores each of a group's requests or sets its fault. It waits for one
// lock of a user: that user's other requests would wait for the same.
func (s *Store) apart(ctx context.Context, tx *sql.Tx, group []*request) error {
	locked := map[int32]error{}
	for _, r := range group {
		user := r.rows[0].userID
		if r.fault = locked[user]; r.fault != nil {
			continue
		}
		if _, err := tx.ExecContext(ctx, "SAVEPOINT request"); err != nil {
			return err
		}
		err := s.db.insert(ctx, tx, distinct([]*request{r}))
		switch {
		case err == nil:
			r.fault = r.rejection()
		case s.db.dialect.classify(err) == classLocked:
			r.fault = fmt.Errorf("outbox: store events: another transaction holds a row that the events refer to: %w", err)
			locked[user] = r.fault
		default:
			return err
		}
		if r.fault == nil {
			continue
		}
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO request"); err != nil {
			return err
		}
	}
	return nil
}

// begin forgets what an earlier attempt made of the request.
func (r *request) begin() {
	r.fault = nil
	for i := range r.rows {
		r.rows[i].fresh, r.rows[i].fault = false, nil
	}
}

// rejection returns the error that names the entries whose rows were rejected,
// or nil.
func (r *request) rejection() error {
	faults := map[int]error{}
	for i := range r.rows {
		if r.rows[i].fault != nil {
			faults[i] = r.rows[i].fault
		}
	}
	return rejection(faults)
}

// distinct returns the group's rows in order, of each key the first.
func distinct(group []*request) (rows []*newRow) {
	seen := map[key]bool{}
	for _, r := range group {
		for i := range r.rows {
			if row := &r.rows[i]; !seen[row.key()] {
				seen[row.key()] = true
				rows = append(rows, row)
			}
		}
	}
	return rows
}
