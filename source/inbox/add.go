package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"keyfold/engine"
)

// Arrival is one body and what [engine.ParseEvent] made of it.
type Arrival struct {
	Body  []byte
	Event engine.Event
	Err   error // set for a body that is no event
}

// Receipt is what became of an arrival.
type Receipt uint8

// The receipts.
const (
	ReceiptNew       Receipt = iota + 1 // stored, and among the deliveries
	ReceiptDuplicate                    // its id was stored before
	ReceiptDead                         // malformed: stored in dead
)

// Add stores arrivals in one transaction and returns, once it is durable, a
// receipt for each and the new events as deliveries, in order. Every delivery
// must be settled; one that is not delivered, with Unsettled. After an error nothing
// is stored, unless it wraps [engine.ErrUnknown]: then the events may be pending
// until the next start.
//
// Once the transaction has begun, ctx ends nothing: an event whose commit
// nobody saw would stay undelivered until the next start. Bodies are not kept.
func (in *Inbox) Add(ctx context.Context, arrivals []Arrival) ([]Receipt, []engine.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if len(arrivals) == 0 {
		return nil, nil, nil
	}
	now := time.Now()
	a := addition{arrivals: arrivals, now: int64(engine.MillisOf(now))}
	ctx = context.WithoutCancel(ctx)
	err := in.ports.Writer.Write(ctx, a.write)
	if errors.Is(err, engine.ErrUnknown) {
		err = in.resolve(ctx, &a, err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("inbox: store %d events: %w", len(arrivals), err)
	}
	in.logDead(arrivals)
	return a.receipts, in.admit(&a, engine.MillisOf(now)), nil
}

// resolve reads back whether a transaction of unknown outcome was committed, and
// returns unknown where it was not. A resent event would otherwise count as a
// duplicate of one that nobody delivered.
func (in *Inbox) resolve(ctx context.Context, a *addition, unknown error) error {
	i := slices.Index(a.receipts, ReceiptNew)
	if i < 0 {
		return unknown // nothing to deliver in either case
	}
	committed := false
	err := in.ports.Writer.Write(ctx, func(tx Tx) error {
		var one int
		err := queryRow(tx.Query, []any{&one}, `SELECT 1 FROM inbox WHERE seq = ? AND digest = ?`,
			a.first+int64(i), a.arrivals[i].Event.Digest[:])
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		committed = err == nil
		return err
	})
	if err == nil && committed {
		return nil
	}
	return errors.Join(unknown, err)
}

// admit counts what was stored and makes the deliveries.
func (in *Inbox) admit(a *addition, now engine.Millis) []engine.Delivery {
	entries := make([]entry, 0, a.fresh)
	deliveries := make([]engine.Delivery, 0, a.fresh)
	in.mu.Lock()
	defer in.mu.Unlock()
	for i, r := range a.receipts {
		switch r {
		case ReceiptNew:
			entries = append(entries, entry{
				inbox: in, event: a.arrivals[i].Event, seq: a.first + int64(i), first: now, open: true,
			})
			deliveries = append(deliveries, entries[len(entries)-1].delivery(0))
		case ReceiptDuplicate:
			in.stats.Repeated++
		case ReceiptDead:
			in.stats.Dead[engine.ReasonOf(a.arrivals[i].Err)]++
		}
	}
	in.open += len(entries)
	in.stats.Stored += int64(len(entries))
	return deliveries
}

func (in *Inbox) logDead(arrivals []Arrival) {
	for i := range arrivals {
		if err := arrivals[i].Err; err != nil {
			in.ports.Log.Warn("event dead-lettered: malformed",
				slog.String("reason", engine.ReasonOf(err)), slog.Any("error", err))
		}
	}
}

// addition is one Add's transaction. The row of arrival i has seq first + i;
// numbers of duplicates and malformed ones stay unused.
type addition struct {
	arrivals []Arrival
	now      int64

	first    int64
	receipts []Receipt
	fresh    int
}

// write begins anew at every run: an earlier one was rolled back.
func (a *addition) write(tx Tx) error {
	a.receipts = make([]Receipt, len(a.arrivals))
	if err := queryRow(tx.Query, []any{&a.first}, `SELECT coalesce(max(seq), 0) + 1 FROM inbox`); err != nil {
		return err
	}
	valid, err := a.insertDead(tx)
	if err != nil {
		return err
	}
	inserted, err := a.insert(tx, valid)
	if err != nil {
		return err
	}
	a.fresh = int(inserted)
	if a.fresh == valid {
		return nil // nobody's receipt needs another look
	}
	return a.findDuplicates(tx)
}

// insertDead stores the malformed arrivals and returns how many others there
// are, with the receipt of new ones.
func (a *addition) insertDead(tx Tx) (valid int, err error) {
	for i := range a.arrivals {
		arrival := &a.arrivals[i]
		if arrival.Err == nil {
			a.receipts[i] = ReceiptNew
			valid++
			continue
		}
		a.receipts[i] = ReceiptDead
		l := letter{reason: engine.ReasonOf(arrival.Err), detail: arrival.Err.Error(), body: arrival.Body}
		if err := l.insert(tx, a.now); err != nil {
			return 0, err
		}
	}
	return valid, nil
}

// rowsPerInsert are the sizes of a statement, largest first. A hundred rows is
// measured: one row per statement reaches half the rate, more than a hundred no
// higher one. The sizes are few because the writer prepares each text once.
var rowsPerInsert = [...]int{100, 10, 1}

var insertQueries = func() (queries [len(rowsPerInsert)]string) {
	const head = `INSERT INTO inbox (seq, digest, message_id, user_id, occurred_at, event_type, body, received_at) VALUES `
	const row, tail = `(?,?,?,?,?,?,?,?)`, ` ON CONFLICT (user_id, digest) DO NOTHING`
	for i, rows := range rowsPerInsert {
		queries[i] = head + strings.Repeat(row+",", rows-1) + row + tail
	}
	return queries
}()

// insert stores the valid arrivals and returns how many were new.
func (a *addition) insert(tx Tx, valid int) (inserted int64, err error) {
	next := 0
	args := make([]any, 0, 8*min(valid, rowsPerInsert[0]))
	for size, rows := range rowsPerInsert {
		for ; valid >= rows; valid -= rows {
			args, next = a.appendRows(args[:0], next, rows)
			result, err := tx.Exec(insertQueries[size], args...)
			if err != nil {
				return 0, err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return 0, err
			}
			inserted += n
		}
	}
	return inserted, nil
}

// appendRows appends the values of so many valid arrivals from index next on,
// and returns the index after the last.
func (a *addition) appendRows(args []any, next, rows int) ([]any, int) {
	for ; rows > 0; next++ {
		if a.receipts[next] != ReceiptNew {
			continue
		}
		e := &a.arrivals[next].Event
		args = append(args, a.first+int64(next), e.Digest[:], e.MessageID, int64(e.UserID),
			int64(e.OccurredAt), e.Type.String(), a.arrivals[next].Body, a.now)
		rows--
	}
	return args, next
}

// findDuplicates corrects the receipts of arrivals that have no row.
func (a *addition) findDuplicates(tx Tx) (err error) {
	stored := make([]bool, len(a.arrivals))
	rows, err := tx.Query(`SELECT seq FROM inbox WHERE seq >= ?`, a.first)
	if err != nil {
		return err
	}
	defer func() { err = joinClose(err, rows) }()
	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return err
		}
		stored[seq-a.first] = true
	}
	for i, r := range a.receipts {
		if r == ReceiptNew && !stored[i] {
			a.receipts[i] = ReceiptDuplicate
		}
	}
	return rows.Err()
}
