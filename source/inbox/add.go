package inbox

import (
	"context"
	"fmt"
	"log/slog"
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
// must be settled; one that is not delivered, with Hold. After an error nothing
// is stored.
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
	if err := in.ports.Writer.Write(context.WithoutCancel(ctx), a.write); err != nil {
		return nil, nil, fmt.Errorf("inbox: store %d events: %w", len(arrivals), err)
	}
	in.logDead(arrivals)
	return a.receipts, in.admit(&a, engine.MillisOf(now)), nil
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
			in.ports.Log.Error("event dead-lettered: malformed",
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
	if err := queryRow(tx, []any{&a.first}, `SELECT coalesce(max(seq), 0) + 1 FROM inbox`); err != nil {
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

// rowsPerInsert is measured: one row per statement reaches half the rate, more
// than a hundred no higher one.
const rowsPerInsert = 100

const (
	insertHead = `INSERT INTO inbox (seq, digest, message_id, user_id, occurred_at, event_type, body, received_at) VALUES `
	insertRow  = `(?,?,?,?,?,?,?,?)`
	insertTail = ` ON CONFLICT (digest) DO NOTHING`
)

func insertQuery(rows int) string {
	return insertHead + strings.Repeat(insertRow+",", rows-1) + insertRow + insertTail
}

var fullInsert = insertQuery(rowsPerInsert)

// insert stores the valid arrivals and returns how many were new.
func (a *addition) insert(tx Tx, valid int) (inserted int64, err error) {
	rows, args := 0, make([]any, 0, 8*min(valid, rowsPerInsert))
	for i := range a.arrivals {
		if a.receipts[i] != ReceiptNew {
			continue
		}
		e := &a.arrivals[i].Event
		args = append(args, a.first+int64(i), e.Digest[:], e.MessageID, int64(e.UserID),
			int64(e.OccurredAt), e.Type.String(), a.arrivals[i].Body, a.now)
		rows++
		valid--
		if rows < rowsPerInsert && valid > 0 {
			continue
		}
		query := fullInsert
		if rows < rowsPerInsert {
			query = insertQuery(rows)
		}
		result, err := tx.Exec(query, args...)
		if err != nil {
			return 0, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return 0, err
		}
		inserted += n
		rows, args = 0, args[:0]
	}
	return inserted, nil
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
