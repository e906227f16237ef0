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
	"keyfold/engine/profile"
)

// Arrival is one body and what [profile.ParseEvent] made of it.
type Arrival struct {
	Body  []byte
	Event profile.Event
	Err   error // set for a body that is no event
	// Kept says that the source keeps the body. The inbox then deletes its copy
	// in the transaction that settles the event.
	Kept   bool
	Origin Origin // stored with a body that is no event
}

// Origin is where a body was read. The zero value is unknown.
type Origin struct {
	Name string // of the file
	Line int64  // in it, from 1
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
// Once the transaction has begun, Add ignores the end of ctx: it would leave
// events that are stored and not delivered until the next start. The bodies'
// memory is not kept.
func (in *Inbox) Add(ctx context.Context, arrivals []Arrival) ([]Receipt, []profile.Delivery, error) {
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
	in.logMalformed(arrivals)
	return a.receipts, in.admit(&a, engine.MillisOf(now)), nil
}

// resolve reads back whether a transaction of unknown outcome was committed, and
// returns unknown where it was not. Otherwise an event that is sent again would
// count as a duplicate of one that was never delivered.
func (in *Inbox) resolve(ctx context.Context, a *addition, unknown error) error {
	i := slices.Index(a.receipts, ReceiptNew)
	if i < 0 {
		return unknown // nothing to deliver in either case
	}
	var committed bool
	err := in.ports.Writer.Write(ctx, func(tx Tx) error {
		return queryRow(tx.Query, []any{&committed}, `SELECT EXISTS (SELECT 1 FROM inbox WHERE seq = ? AND digest = ?)`,
			a.first+int64(i), a.arrivals[i].Event.Digest[:])
	})
	if err == nil && committed {
		return nil
	}
	return errors.Join(unknown, err)
}

// admit counts what was stored and makes the deliveries.
func (in *Inbox) admit(a *addition, now engine.Millis) []profile.Delivery {
	entries := make([]entry, 0, len(a.arrivals)) // deliveries refer to its elements
	deliveries := make([]profile.Delivery, 0, len(a.arrivals))
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
			arrival := &a.arrivals[i]
			in.stats.dead(DeadEvent{Reason: engine.ReasonOf(arrival.Err), Detail: arrival.Err.Error(), Origin: arrival.Origin})
		}
	}
	in.open += len(entries)
	in.stats.Stored += int64(len(entries))
	return deliveries
}

func (in *Inbox) logMalformed(arrivals []Arrival) {
	for i := range arrivals {
		if err := arrivals[i].Err; err != nil {
			in.ports.Log.Warn("event dead-lettered: malformed",
				slog.String("reason", engine.ReasonOf(err)), slog.Any("error", err),
				slog.String("hint", "correct the sender, and send the event again"))
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
	inserted, err := a.insert(tx, &insertRows, valid, a.row)
	if err != nil {
		return err
	}
	if inserted < int64(len(valid)) {
		if err := a.findDuplicates(tx); err != nil {
			return err
		}
	}
	kept := slices.DeleteFunc(valid, func(i int) bool { return !a.arrivals[i].Kept || a.receipts[i] != ReceiptNew })
	_, err = a.insert(tx, &insertBodies, kept, a.body)
	return err
}

// insertDead stores the malformed arrivals and returns the indexes of the
// others, with the receipt of new ones.
func (a *addition) insertDead(tx Tx) (valid []int, err error) {
	valid = make([]int, 0, len(a.arrivals))
	for i := range a.arrivals {
		arrival := &a.arrivals[i]
		if arrival.Err == nil {
			a.receipts[i] = ReceiptNew
			valid = append(valid, i)
			continue
		}
		a.receipts[i] = ReceiptDead
		l := deadLetter{reason: engine.ReasonOf(arrival.Err), detail: arrival.Err.Error(), body: arrival.Body, origin: arrival.Origin}
		if err := l.insert(tx, a.now); err != nil {
			return nil, err
		}
	}
	return valid, nil
}

// rowsPerInsert are the sizes of a statement, largest first. A hundred rows is
// measured: one row per statement reaches half the rate, more than a hundred no
// higher one. The sizes are few because the writer prepares each text once.
var rowsPerInsert = [...]int{100, 10, 1}

// inserts are the statements of one table, by the sizes of rowsPerInsert.
type inserts [len(rowsPerInsert)]string

func insertsOf(head, row, tail string) (queries inserts) {
	for i, rows := range rowsPerInsert {
		queries[i] = head + strings.Repeat(row+",", rows-1) + row + tail
	}
	return queries
}

var (
	insertRows = insertsOf(`INSERT INTO inbox (seq, digest, message_id, user_id, occurred_at, event_type, body, received_at) VALUES `,
		`(?,?,?,?,?,?,?,?)`, ` ON CONFLICT (user_id, digest) DO NOTHING`)
	insertBodies = insertsOf(`INSERT INTO pending_bodies (seq, body) VALUES `, `(?,?)`, ``)
)

// insert stores a row, whose values are appended by values, for each arrival
// that is named by its index, and returns how many were new.
func (a *addition) insert(tx Tx, queries *inserts, arrivals []int, values func(args []any, i int) []any) (inserted int64, err error) {
	var args []any
	for size, rows := range rowsPerInsert {
		for ; len(arrivals) >= rows; arrivals = arrivals[rows:] {
			args = args[:0]
			for _, i := range arrivals[:rows] {
				args = values(args, i)
			}
			result, err := tx.Exec(queries[size], args...)
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

func (a *addition) row(args []any, i int) []any {
	arrival := &a.arrivals[i]
	e, body := &arrival.Event, arrival.Body
	if arrival.Kept {
		body = []byte{} // not nil: the column is NOT NULL
	}
	return append(args, a.first+int64(i), e.Digest[:], e.MessageID, int64(e.UserID), int64(e.OccurredAt), e.Type.String(), body, a.now)
}

func (a *addition) body(args []any, i int) []any {
	return append(args, a.first+int64(i), a.arrivals[i].Body)
}

// findDuplicates corrects the receipts of arrivals that have no row.
func (a *addition) findDuplicates(tx Tx) error {
	stored := make([]bool, len(a.arrivals))
	err := each(tx.Query, func(rows *sql.Rows) error {
		var seq int64
		err := rows.Scan(&seq)
		if err == nil {
			stored[seq-a.first] = true
		}
		return err
	}, `SELECT seq FROM inbox WHERE seq >= ?`, a.first)
	for i, r := range a.receipts {
		if r == ReceiptNew && !stored[i] {
			a.receipts[i] = ReceiptDuplicate
		}
	}
	return err
}
