package inbox

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// Promise(away/worker-killed, shutdown/lite)
func TestCrashLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	b := start(t, path, patient, nil)
	var arrivals []Arrival
	for i := range 3*recoverChunk + 7 {
		arrivals = append(arrivals, event(i%50+1, i))
	}
	ds := b.add(t, arrivals...)
	marked := 2*recoverChunk + 3
	settle(ds[:marked], engine.Folded)
	_ = b.wait(context.Background(), func() bool { return b.marks.volatile == 0 })
	b.writer.pause(true)
	settle(ds[marked:marked+10], engine.Folded) // these verdicts die with the process
	b.kill()

	again := start(t, path, patient, nil)
	defer again.stop()
	got := recovered(t, again)
	if !slices.Equal(ids(got), ids(ds[marked:])) {
		t.Fatalf("%d recovered, want the last %d in order", len(got), len(ds)-marked)
	}
	for i, d := range got {
		if d.FirstSeen != 0 || d.Event != ds[marked+i].Event {
			t.Fatalf("recovered %+v, want %+v", d, ds[marked+i])
		}
	}
	settle(got, engine.Folded)
	again.idle(t)
	if s := again.Stats(); s.Recovered != int64(len(got)) || s.Folded != int64(len(got)) || again.pending(t) != 0 {
		t.Errorf("stats %+v", s)
	}
	if n := len(again.add(t, arrivals...)); n != 0 {
		t.Errorf("%d of all arrivals are new after the crash", n)
	}
}

// Events are delivered while marks of earlier ones are written.
func TestRecoverWhileMarksAreWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	b := start(t, path, patient, nil)
	all := b.add(t, events(1, 0, 3000)...)
	b.kill()
	again := start(t, path, patient, nil)
	defer again.stop()
	var got []string
	err := again.Recover(context.Background(), func(_ context.Context, ds []profile.Delivery) error {
		got = append(got, ids(ds)...)
		settle(ds, engine.Folded)
		return nil
	})
	if err != nil || !slices.Equal(got, ids(all)) {
		t.Fatalf("%d of %d recovered, %v", len(got), len(all), err)
	}
	again.idle(t)
	if n := again.pending(t); n != 0 {
		t.Errorf("%d pending", n)
	}
}

func TestRecoverThatIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	b := start(t, path, patient, nil)
	b.add(t, events(1, 0, 3)...)
	b.kill()
	again := start(t, path, patient, nil)
	defer again.stop()
	refused := errors.New("stopping")
	err := again.Recover(context.Background(), func(context.Context, []profile.Delivery) error { return refused })
	if !errors.Is(err, refused) {
		t.Errorf("error %v", err)
	}
	again.idle(t)
	if n := again.pending(t); n != 3 {
		t.Errorf("%d pending, want 3", n)
	}
}

// A body that today's reading refuses is dead, and stops nobody.
func TestRecoverOfAnUnreadableRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	b := start(t, path, patient, nil)
	odd := event(1, 1)
	odd.Body = []byte(`{"user_id":"1"}`)
	b.add(t, event(1, 0), odd, event(1, 2))
	b.kill()
	again := start(t, path, patient, nil)
	defer again.stop()
	got := recovered(t, again)
	settle(got, engine.Folded)
	again.idle(t)
	letters := again.letters(t)
	if len(got) != 2 || len(letters) != 1 || letters[0].MessageID != odd.Event.MessageID || again.pending(t) != 0 {
		t.Errorf("%d recovered, letters %+v", len(got), letters)
	}
}

// The id an event entered with stays, and so does the judgement of its time.
func TestRecoverKeepsTheIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	b := start(t, path, patient, nil)
	a := event(1, 0)
	a.Event.MessageID = "given at the door"
	a.Event.Digest = profile.DigestOf(a.Event.MessageID)
	a.Event.OccurredAt = engine.MillisOf(time.Now().Add(4 * time.Minute))
	a.Body = []byte(`{"user_id":1,"event_type":"search","search_phrase":"boots","occurred_at":"` +
		a.Event.OccurredAt.Time().Format(time.RFC3339Nano) + `"}`)
	b.add(t, a)
	// The clock is set back by a day before the restart.
	err := b.writer.Write(context.Background(), func(tx Tx) error {
		_, err := tx.Exec(`UPDATE inbox SET received_at = received_at - 86400000`)
		return err
	})
	must.OK(t, err)
	b.kill()
	again := start(t, path, patient, nil)
	defer again.stop()
	got := recovered(t, again)
	if len(got) != 1 || got[0].Event.MessageID != a.Event.MessageID || got[0].Event.Digest != a.Event.Digest ||
		got[0].Event.Phrase != "boots" || got[0].Event.OccurredAt != a.Event.OccurredAt {
		t.Errorf("recovered %+v", got)
	}
}

// profiles answers from memory.
type profiles map[int32]*profile.Profile

func (p profiles) Load(_ context.Context, users []int32) ([]*profile.Profile, error) {
	all := make([]*profile.Profile, len(users))
	for i, u := range users {
		all[i] = p[u]
	}
	return all, nil
}

// Events that arrived before the last written batch may be written first after
// a long stop; by then the batch's ids may leave the profile. They are looked
// up before.
func TestRecoverMarksFoldedEventsFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbox.db")
	b := start(t, path, patient, nil)
	arrivals := append(events(1, 0, 700), events(2, 0, 5)...)
	ds := b.add(t, arrivals...)
	b.kill()

	var folded []profile.AppliedID
	for _, d := range ds[600:700] {
		folded = append(folded, d.Event.Digest.ID())
	}
	p := &profile.Profile{UserID: 1, Applied: profile.Applied{}.With(1, folded, 1, profile.DefaultIDLimits())}
	again := start(t, path, patient, profiles{1: p})
	defer again.stop()
	got := recovered(t, again)
	want := append(ids(ds[:600]), ids(ds[700:])...)
	if !slices.Equal(ids(got), want) {
		t.Errorf("%d recovered, want %d", len(got), len(want))
	}
	if s := again.Stats(); s.Recovered != 705 || s.Folded != 100 {
		t.Errorf("stats %+v", s)
	}
	settle(got, engine.Folded)
	again.idle(t)
	if n := again.pending(t); n != 0 {
		t.Errorf("%d pending", n)
	}
}

func TestRecoverOfNothing(t *testing.T) {
	b := newBench(t)
	if got := recovered(t, b); len(got) != 0 {
		t.Errorf("%d recovered from an empty file", len(got))
	}
}
