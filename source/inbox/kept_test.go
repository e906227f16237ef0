package inbox

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// kept are arrivals whose source keeps their bodies.
func kept(arrivals ...Arrival) []Arrival {
	for i := range arrivals {
		arrivals[i].Kept = true
	}
	return arrivals
}

// bodies counts the bodies that the file holds beside the table dead.
func (b *bench) bodies(t fataler) (n int64) {
	t.Helper()
	err := queryRow(b.read.Query, []any{&n}, `SELECT (SELECT count(*) FROM pending_bodies) + (SELECT count(*) FROM inbox WHERE body <> x'')`)
	must.OK(t, err)
	return n
}

// The bodies that a source keeps go when their events are settled, whatever
// became of them, and their pages are used again: the file does not grow by them.
func TestKeptBodiesAreDeletedWhenSettled(t *testing.T) {
	const rounds, size, padding = 40, 100, 2000
	b := newBench(t)
	for n := range rounds {
		arrivals := kept(events(n+1, 0, size)...)
		for i := range arrivals {
			arrivals[i].Body = append(bytes.Clone(arrivals[i].Body), bytes.Repeat([]byte{' '}, padding)...)
		}
		ds := b.add(t, arrivals...)
		if got := b.bodies(t); got != size {
			t.Fatalf("%d bodies of %d pending events", got, size)
		}
		outcomes := []engine.Outcome{engine.Folded, engine.Duplicate, engine.ProductMissing, engine.UserErased}
		settle(ds, outcomes[n%len(outcomes)])
		b.idle(t)
	}
	if n := b.bodies(t); n != 0 {
		t.Errorf("%d bodies of settled events", n)
	}
	var bytes int64
	must.OK(t, queryRow(b.read.Query, []any{&bytes}, `SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`))
	if all := int64(rounds * size * padding); bytes > all/4 {
		t.Errorf("the file has %d bytes after %d bytes of settled bodies", bytes, all)
	}
}

// An event that is added again is a duplicate, also when its body is gone, and
// leaves no second body; the bodies of other sources stay.
func TestKeptBodiesAndDuplicates(t *testing.T) {
	b := newBench(t)
	file, posts := events(1, 0, 3), kept(events(1, 2, 3)...)
	ds := b.add(t, file...)
	ds = append(ds, b.add(t, append(posts, posts[1])...)...)
	if len(ds) != 5 || b.bodies(t) != 5 {
		t.Fatalf("%d events with %d bodies, want 5", len(ds), b.bodies(t))
	}
	settle(ds, engine.Folded)
	b.idle(t)
	for _, again := range [][]Arrival{posts, events(1, 0, 5), kept(events(1, 0, 5)...)} {
		if n := len(b.add(t, again...)); n != 0 {
			t.Errorf("%d of %d are new", n, len(again))
		}
	}
	if n := b.bodies(t); n != 3 {
		t.Errorf("%d bodies, want those of the file", n)
	}
	got, err := Last(context.Background(), b.ports.Reader, 1, 10)
	if err != nil || len(got) != 5 {
		t.Fatalf("%d events, %v", len(got), err)
	}
	for i, e := range got {
		want := event(1, 4-i)
		if bodiless := i < 2; (len(e.Body) == 0) != bodiless {
			t.Errorf("event %d has the body %q", i, e.Body)
		} else if bodiless {
			want.Event.ProductID = 0
		}
		if read, err := e.Event(); err != nil || read != want.Event {
			t.Errorf("event %d is %+v, want %+v (%v)", i, read, want.Event, err)
		}
	}
}

// A mark and the deletion of its body are one transaction: what a crash leaves
// pending has its body.
//
// Promise(lite/killed): A killed keyfold-lite loses and doubles nothing: a pending post has its body,
// and both files together make every profile again.
func TestKeptBodiesAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	b := start(t, path, patient, nil)
	ds := b.add(t, slices.Concat(kept(events(1, 0, 50)...), events(1, 50, 50))...)
	settle(slices.Concat(ds[:20], ds[50:70]), engine.Folded)
	_ = b.wait(context.Background(), func() bool { return b.marks.volatile == 0 })
	b.writer.pause(true)
	settle(ds[20:30], engine.Folded) // these verdicts die with the process
	b.kill()

	folded := make([]profile.AppliedID, 0, 10)
	for _, d := range ds[20:30] {
		folded = append(folded, d.Event.Digest.ID())
	}
	p := &profile.Profile{UserID: 1, Applied: profile.Applied{}.With(1, folded, 1, profile.DefaultIDLimits())}
	again := start(t, path, patient, profiles{1: p})
	defer again.stop()
	got := recovered(t, again)
	want := slices.Concat(ds[30:50], ds[70:])
	if len(got) != len(want) {
		t.Fatalf("%d recovered, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i].Event != want[i].Event {
			t.Errorf("recovered %+v, want %+v", got[i].Event, want[i].Event)
		}
	}
	settle(got[:1], engine.Dead)
	settle(got[1:], engine.Folded)
	again.idle(t)
	if n := again.bodies(t); n != 50 {
		t.Errorf("%d bodies, want those of the other source", n)
	}
	letters := again.letters(t)
	if len(letters) != 1 || !bytes.Equal(letters[0].Body, event(1, 30).Body) {
		t.Errorf("letters %+v", letters)
	}
}

// A file of an earlier version gets the table, and keeps the bodies it has.
func TestFileWithoutPendingBodies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	b := start(t, path, patient, nil)
	settle(b.add(t, events(1, 0, 2)...), engine.Folded)
	b.idle(t)
	left := b.add(t, events(1, 2, 2)...)
	drop := func(tx Tx) error {
		_, err := tx.Exec(`DROP TABLE pending_bodies`)
		return err
	}
	must.OK(t, b.writer.Write(context.Background(), drop))
	// A reader beside it does not need the table.
	if got, err := Last(context.Background(), b.ports.Reader, 1, 10); err != nil || len(got) != 4 {
		t.Errorf("%d events, %v", len(got), err)
	}
	b.kill()
	again := start(t, path, patient, nil)
	defer again.stop()
	got := recovered(t, again)
	if !slices.Equal(ids(got), ids(left)) {
		t.Errorf("recovered %v, want %v", ids(got), ids(left))
	}
	if n := len(again.add(t, kept(events(1, 0, 4)...)...)); n != 0 {
		t.Errorf("%d are new", n)
	}
	settle(append(got, again.add(t, kept(event(1, 4))...)...), engine.Folded)
	again.idle(t)
	if n := again.bodies(t); n != 4 {
		t.Errorf("%d bodies, want those of the earlier version", n)
	}
}

// Forgetting a user deletes the bodies of pending events too.
func TestForgetDeletesPendingBodies(t *testing.T) {
	b := newBench(t)
	b.add(t, kept(append(events(1, 0, 3), events(2, 0, 2)...)...)...)
	done, err := Forget(context.Background(), b.writer, 1, func([]byte) int32 { return 0 }, false)
	if err != nil || done != (Forgotten{Events: 3}) {
		t.Errorf("%+v, %v", done, err)
	}
	if n := b.bodies(t); n != 2 {
		t.Errorf("%d bodies, want those of the other user", n)
	}
}
