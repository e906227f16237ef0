package api

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/redistest"
	"keyfold/source/repeat"
)

// remembering gives a world a memory in Redis.
func (w *world) remembering(t testing.TB, server *redistest.Server) {
	t.Helper()
	config := repeat.DefaultConfig()
	config.URL, config.Capacity = server.URL(), 1_000
	store, err := repeat.New(config, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	w.api.ports.Repeats = store
}

// awaitRepeat posts until the answer is a repeat that Redis knows.
func (w *world) awaitRepeat(t testing.TB, body string) {
	t.Helper()
	must.Hold(t, "a repeat that is answered without the ledger", func() bool {
		loads := w.ledger.loads.Load()
		status, p := w.post(t, body)
		return status == 202 && p.Duplicate == 1 && p.Accepted == 0 && len(p.EventIDs) == 1 && w.ledger.loads.Load() == loads
	})
}

// A repeat is answered from Redis with the same ids, and an event that is certainly new is
// published, both without the ledger. An event_id of another event is refused as without Redis.
func TestRepeatsFromRedis(t *testing.T) {
	w := newWorld(t)
	w.remembering(t, redistest.Start(t))
	id := uuid.New()
	if status, p := w.post(t, event(id, "17", "one")); status != 202 || p.Accepted != 1 {
		t.Fatalf("%d: %+v", status, p)
	}
	w.awaitRepeat(t, event(id, "17", "one"))
	must.Hold(t, "a new event that is published without the ledger", func() bool { // Redis may answer late
		loads, published := w.ledger.loads.Load(), w.broker.count()
		status, p := w.post(t, event(uuid.New(), "17", "two"))
		if status != 202 || p.Accepted != 1 || w.broker.count() != published+1 {
			t.Fatalf("a new event: %d %+v", status, p)
		}
		return w.ledger.loads.Load() == loads
	})
	w.decidedNow(t, event(id, "17", "one"))
	for reason, body := range map[string]string{
		notify.ReasonAnotherUser: event(id, "18", "one"), ReasonAnotherEvent: event(id, "17", "other"),
	} {
		if status, p := w.post(t, body); status != 409 || p.Errors[0].Reason != reason {
			t.Errorf("%s: %d %+v", reason, status, p)
		}
	}
}

// Of events that the broker has not confirmed, Redis has no key.
func TestUnconfirmedAreNotRemembered(t *testing.T) {
	w := newWorld(t)
	server := redistest.Start(t)
	w.remembering(t, server)
	kept, lost, unknown := uuid.New(), uuid.New(), uuid.New()
	w.broker.answers = []error{nil, errDown, errors.New("no answer")}
	body := "[" + event(kept, "17", "a") + "," + event(lost, "17", "b") + "," + event(unknown, "17", "c") + "]"
	if status, _ := w.post(t, body); status != 503 {
		t.Fatalf("status %d", status)
	}
	must.Hold(t, "the key of the confirmed event", func() bool { return server.Do(t, "EXISTS", "npe:idem:"+kept.String()) == ":1" })
	if got := server.Do(t, "EXISTS", "npe:idem:"+lost.String(), "npe:idem:"+unknown.String()); got != ":0" {
		t.Errorf("%s keys of events that are not confirmed", got)
	}
	if status, p := w.post(t, body); status != 202 || p.Accepted != 2 || p.Duplicate != 1 {
		t.Errorf("%d: %+v", status, p)
	}
}

// trouble is what befalls Redis between the posts of a run, and is over before the next.
type trouble func(t testing.TB, server *redistest.Server, step int)

// Whatever befalls Redis, every POST is answered and the same events are decided, once each.
//
// Promise(api/redis): With Redis killed, emptied, frozen or set back each POST is answered, and the
// same events are decided once each.
// Promise(acceptance/c2)
func TestRedisChangesNoDecision(t *testing.T) {
	want := decidedOf(t, nil, nil)
	for name, befalls := range map[string]trouble{
		"well": func(testing.TB, *redistest.Server, int) {},
		"killed": func(t testing.TB, s *redistest.Server, step int) {
			if step%2 == 0 {
				s.Kill()
			} else {
				s.Restart(t)
			}
		},
		"emptied": func(t testing.TB, s *redistest.Server, _ int) { s.Do(t, "FLUSHALL") },
		"frozen": func(t testing.TB, s *redistest.Server, step int) {
			if step%2 == 0 {
				s.Freeze(t)
			} else {
				s.Thaw(t)
			}
		},
		"old dump": oldDump,
	} {
		t.Run(name, func(t *testing.T) {
			got := decidedOf(t, redistest.Start(t, "--appendonly", "no"), befalls)
			if len(got) != len(want) {
				t.Fatalf("%d events decided, %d without Redis", len(got), len(want))
			}
			for id, n := range got {
				if n != 1 || want[id] != 1 {
					t.Errorf("event %s: %d decisions, %d without Redis", id, n, want[id])
				}
			}
		})
	}
}

// oldDump keeps the first state, and goes back to it time and again.
func oldDump(t testing.TB, s *redistest.Server, step int) {
	dump, old := filepath.Join(s.Dir, "dump.rdb"), filepath.Join(s.Dir, "old.rdb")
	if step == 0 {
		s.Do(t, "SAVE")
		must.OK(t, os.Rename(dump, old))
		return
	}
	text, err := os.ReadFile(old)
	must.OK(t, err)
	s.Kill()
	must.OK(t, os.WriteFile(dump, text, 0o600))
	s.Restart(t)
}

// decidedOf posts 240 events, a tenth of them twice, and returns how many decisions there
// are of each.
func decidedOf(t *testing.T, server *redistest.Server, befalls trouble) map[uuid.UUID]int {
	t.Helper()
	w := newWorld(t)
	if server != nil {
		w.remembering(t, server)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const posts, steps = 240, 8
	var posted []uuid.UUID
	for i := range posts {
		if befalls != nil && i%(posts/steps) == posts/steps-1 {
			befalls(t, server, i/(posts/steps))
		}
		n := len(posted)
		if n > 0 && rng.IntN(10) == 0 {
			n = rng.IntN(n)
		} else {
			posted = append(posted, uuid.NewSHA1(uuid.Nil, fmt.Appendf(nil, "%d", n)))
		}
		if status, p := w.post(t, event(posted[n], fmt.Sprint(n%50), fmt.Sprintf("title %d", n))); status != 202 || p.EventIDs[0] != posted[n] {
			t.Fatalf("post %d: %d %+v", i, status, p)
		}
	}
	w.broker.late.Wait()
	decided := map[uuid.UUID]int{}
	for _, id := range posted {
		var found struct{ Turns []Explained }
		if status, _ := w.ask(t, call{method: "GET", path: NotificationsPath + "/" + id.String()}, &found); status != 200 {
			t.Errorf("event %s: %d", id, status)
		}
		decided[id] = len(found.Turns)
	}
	return decided
}
