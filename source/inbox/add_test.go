package inbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

func TestAddDeliversOnlyNewEventsInOrder(t *testing.T) {
	b := newBench(t)
	first := events(1, 0, 3)
	receipts, deliveries, err := b.Add(context.Background(), []Arrival{
		first[0], first[1], first[0], malformed(`{"user_id":`), first[2], first[1],
	})
	must.OK(t, err)
	want := []Receipt{ReceiptNew, ReceiptNew, ReceiptDuplicate, ReceiptDead, ReceiptNew, ReceiptDuplicate}
	if !slices.Equal(receipts, want) {
		t.Errorf("receipts %v, want %v", receipts, want)
	}
	if len(deliveries) != 3 {
		t.Fatalf("%d deliveries, want 3", len(deliveries))
	}
	for i, d := range deliveries {
		if d.Event != first[i].Event || d.FirstSeen != 0 || d.Settler == nil {
			t.Errorf("delivery %d is %+v", i, d)
		}
	}
	receipts, deliveries, err = b.Add(context.Background(), append(events(1, 2, 1), event(2, 0)))
	if err != nil || !slices.Equal(receipts, []Receipt{ReceiptDuplicate, ReceiptNew}) || len(deliveries) != 1 {
		t.Errorf("across calls: %v, %d deliveries, %v", receipts, len(deliveries), err)
	}
	s := b.Stats()
	if s.Stored != 4 || s.Repeated != 3 || s.Dead[engine.ReasonMalformedJSON] != 1 {
		t.Errorf("stats %+v", s)
	}
	if n := b.pending(t); n != 4 {
		t.Errorf("%d pending, want 4", n)
	}
}

func TestAddOfManyRows(t *testing.T) {
	b := newBench(t)
	for _, n := range []int{0, 1, 9, 10, 99, 100, 101, 512} {
		all := events(n+1, 0, n)
		if got := b.add(t, all...); len(got) != n {
			t.Errorf("%d of %d were new", len(got), n)
		}
		// Now each is a duplicate, but for one in the middle.
		all = slices.Insert(all, n/2, event(10_000+n, 0))
		if got := b.add(t, all...); len(got) != 1 || got[0].Event.UserID != int32(10_000+n) {
			t.Errorf("after %d: %d were new", n, len(got))
		}
	}
}

func TestMalformedBodiesAreCounted(t *testing.T) {
	b := newBench(t)
	long := strings.Repeat("x", profile.MaxBodyBytes+10)
	b.add(t, malformed("garbage"), malformed(""), malformed("garbage"), malformed(long))
	b.add(t, malformed("garbage"), malformed(long+"y"), Arrival{Err: malformed("").Err})
	letters := b.letters(t)
	if len(letters) != 4 {
		t.Fatalf("%d letters, want 4", len(letters))
	}
	for i, want := range []struct {
		times, size int
		reason      string
	}{
		{3, 7, engine.ReasonMalformedJSON},
		{2, 0, engine.ReasonMalformedJSON},
		{1, profile.MaxBodyBytes, engine.ReasonBodyTooLarge},
		{1, profile.MaxBodyBytes, engine.ReasonBodyTooLarge},
	} {
		l := letters[i]
		if l.Times != want.times || l.Reason != want.reason || len(l.Body) != want.size || l.Detail == "" {
			t.Errorf("letter %d: %d times, %s, %d bytes, %q", i, l.Times, l.Reason, len(l.Body), l.Detail)
		}
		if l.FirstAt == 0 || l.LastAt < l.FirstAt || l.MessageID != "" || l.UserID != 0 {
			t.Errorf("letter %d: %+v", i, l)
		}
	}
	b.idle(t) // dead arrivals are no deliveries
}

func TestAddThatFailsStoresNothing(t *testing.T) {
	b := newBench(t)
	b.writer.setCommit(func() error { return errors.New("disk full") })
	_, deliveries, err := b.Add(context.Background(), append(events(1, 0, 3), malformed("x")))
	if err == nil || deliveries != nil {
		t.Fatalf("%d deliveries, error %v", len(deliveries), err)
	}
	if s := b.Stats(); s.Stored != 0 || len(s.Dead) != 0 {
		t.Errorf("stats %+v", s)
	}
	b.writer.setCommit(nil)
	b.idle(t)
	if n := len(b.add(t, events(1, 0, 3)...)); n != 3 {
		t.Errorf("%d of 3 are new after the failure", n)
	}
}

// A transaction may run twice; receipts are those of the run that lasted.
func TestAddRunsAgainAfterRollback(t *testing.T) {
	b := newBench(t)
	fail := true
	b.writer.setCommit(func() error {
		if fail {
			fail = false
			return errors.New("once")
		}
		return nil
	})
	receipts, deliveries, err := b.Add(context.Background(), append(events(1, 0, 2), event(1, 0)))
	if err != nil || len(deliveries) != 2 || !slices.Equal(receipts, []Receipt{ReceiptNew, ReceiptNew, ReceiptDuplicate}) {
		t.Errorf("%v, %d deliveries, %v", receipts, len(deliveries), err)
	}
}

// A commit whose fate is unknown is read back: what was stored is delivered.
func TestAddOfUnknownOutcome(t *testing.T) {
	b := newBench(t)
	unknown := fmt.Errorf("%w: connection lost", engine.ErrUnknown)
	w := &vague{Writer: b.writer, err: unknown}
	b.ports.Writer = w
	if ds := b.add(t, event(1, 0), event(1, 0), event(1, 1)); len(ds) != 2 {
		t.Errorf("%d deliveries of a committed transaction, want 2", len(ds))
	}
	w.lose = true
	_, ds, err := b.Add(context.Background(), events(1, 5, 2))
	if !errors.Is(err, engine.ErrUnknown) || ds != nil {
		t.Errorf("%d deliveries of a lost transaction, %v", len(ds), err)
	}
	if _, _, err = b.Add(context.Background(), events(1, 0, 1)); !errors.Is(err, engine.ErrUnknown) {
		t.Errorf("nothing new: %v", err)
	}
	b.ports.Writer = b.writer
	if n := len(b.add(t, events(1, 5, 2)...)); n != 2 {
		t.Errorf("%d of 2 are new", n)
	}
}

// vague says of every other Write that its outcome is unknown, whether it kept
// the transaction or lost it.
type vague struct {
	Writer
	err  error
	lose bool
	odd  bool
}

func (v *vague) Write(ctx context.Context, fn func(Tx) error) error {
	if v.odd = !v.odd; !v.odd {
		return v.Writer.Write(ctx, fn)
	}
	err := v.Writer.Write(ctx, func(tx Tx) error {
		err := fn(tx)
		if v.lose {
			return errors.Join(err, v.err)
		}
		return err
	})
	if err != nil && !v.lose {
		return err
	}
	return v.err
}

// A caller that gives up in the middle must not leave events that nobody
// delivers.
func TestAddOutlivesItsContext(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(context.Background())
	must.OK(t, b.writer.Write(ctx, func(Tx) error { return nil }))
	b.writer.setCommit(func() error { cancel(); return nil })
	_, deliveries, err := b.Add(ctx, events(1, 0, 2))
	if err != nil || len(deliveries) != 2 {
		t.Errorf("%d deliveries, %v", len(deliveries), err)
	}
	if _, _, err := b.Add(ctx, events(1, 5, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

func TestLast(t *testing.T) {
	b := newBench(t)
	late := event(7, 0)
	ds := b.add(t, event(7, 5), late, event(8, 9), event(7, 9))
	settle(ds[:1], engine.Folded)
	settle(ds[1:], engine.Unsettled)
	b.idle(t)
	got, err := Last(context.Background(), b.ports.Reader, 7, 2)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d events, %v", len(got), err)
	}
	if got[0].MessageID != event(7, 9).Event.MessageID || got[0].State != StatePending || got[0].SettledAt != 0 {
		t.Errorf("newest is %+v", got[0])
	}
	e := got[1]
	if e.MessageID != event(7, 5).Event.MessageID || e.State != StateFolded || e.SettledAt == 0 ||
		e.Type != profile.ProductView || !bytes.Equal(e.Body, event(7, 5).Body) || e.UserID != 7 {
		t.Errorf("second is %+v", e)
	}
	if read, err := e.Event(); err != nil || read != ds[0].Event {
		t.Errorf("read again as %+v, %v", read, err)
	}
	if got, _ := Last(context.Background(), b.ports.Reader, 7, 100); len(got) != 3 || got[2].MessageID != late.Event.MessageID {
		t.Errorf("%d events in all", len(got))
	}
	if got, err := Last(context.Background(), b.ports.Reader, 7, -1); len(got) != 0 || err != nil {
		t.Errorf("n below zero: %d events, %v", len(got), err)
	}
}

func TestConfigValidate(t *testing.T) {
	if err := patient.Validate(); err != nil {
		t.Error(err)
	}
	err := Config{RetryDelay: 0, MaxRetries: -1}.Validate()
	if err == nil || !strings.Contains(err.Error(), "RetryDelay") || !strings.Contains(err.Error(), "MaxRetries") {
		t.Errorf("both faults must be named: %v", err)
	}
}

// One id of two users is two events, also in a file that was made when it was
// one; what is folded of one user is not of the other.
//
// Promise(outbox/user-and-id)
func TestIDsArePerUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	db, err := sql.Open("sqlite", "file:"+path)
	must.OK(t, err)
	narrow := strings.Replace(schema[0], ",\n\t\tUNIQUE (user_id, digest)", "", 1)
	narrow = strings.Replace(narrow, "digest      BLOB    NOT NULL", "digest      BLOB    NOT NULL UNIQUE", 1)
	for _, statement := range append([]string{narrow}, schema[1:]...) {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	both := []Arrival{event(1, 0), event(2, 0)}
	for i := range both {
		both[i].Event.MessageID, both[i].Event.Digest = "order-1", profile.DigestOf("order-1")
	}
	e := &both[0].Event
	if _, err := db.Exec(`INSERT INTO inbox (seq, digest, message_id, user_id, occurred_at, event_type, body, received_at) VALUES (7, ?, ?, 1, 0, 'product_view', ?, 0)`,
		e.Digest[:], e.MessageID, both[0].Body); err != nil {
		t.Fatal(err)
	}
	must.OK(t, db.Close())
	folded := &profile.Profile{UserID: 1, Applied: profile.Applied{}.With(1, []profile.AppliedID{e.Digest.ID()}, 1, profile.DefaultIDLimits())}
	b := start(t, path, patient, profiles{1: folded})
	receipts, _, err := b.Add(context.Background(), both)
	if err != nil || !slices.Equal(receipts, []Receipt{ReceiptDuplicate, ReceiptNew}) {
		t.Errorf("receipts %v, %v", receipts, err)
	}
	b.kill()
	again := start(t, path, patient, profiles{1: folded})
	defer again.stop()
	got := recovered(t, again)
	if len(got) != 1 || got[0].Event.UserID != 2 {
		t.Errorf("recovered %+v", got)
	}
	settle(got, engine.Folded)
}
