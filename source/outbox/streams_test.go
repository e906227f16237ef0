package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// streams are those of a broker that drops what it has. Each call may fail in each way that a
// call can, and what was on its way may come later, from a process that stood still.
type streams struct {
	mu     sync.Mutex
	random *rand.Rand
	name   string // of the streams of now
	faults int    // how many of 100 calls fail
	last   map[string]int64
	logs   map[string][]Row
	late   [][]Group
}

func (s *streams) Last(_ context.Context, shard int, reference string) (string, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.random.IntN(300) < s.faults {
		return "", 0, fmt.Errorf("test: %w", engine.ErrAway)
	}
	name := fmt.Sprintf("%s-%d", s.name, shard%4)
	return name, s.last[name+reference], nil
}

// PublishGroups stores all, some or none, and tells what it did or that it is not known.
func (s *streams) PublishGroups(_ context.Context, groups []Group) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	errs := make([]error, len(groups))
	if s.random.IntN(100) >= s.faults {
		s.store(groups)
		return errs
	}
	var fault error
	switch s.random.IntN(4) {
	case 0:
		fault = engine.ErrAway
	case 1:
		s.store(groups)
		fault = engine.ErrUnknown
	case 2:
		s.store(groups[:s.random.IntN(len(groups)+1)])
		fault = engine.ErrUnknown
	case 3:
		s.late = append(s.late, slices.Clone(groups))
		fault = engine.ErrUnknown
	}
	for i := range errs {
		errs[i] = fmt.Errorf("test: %w", fault)
	}
	return errs
}

func (s *streams) store(groups []Group) {
	for _, g := range groups {
		if at := g.Stream + g.Reference; g.Number > s.last[at] {
			s.last[at] = g.Number
			s.logs[g.Stream] = append(s.logs[g.Stream], g.Rows...)
		}
	}
	if len(s.late) > 0 && s.random.IntN(2) == 0 {
		late := s.late[0]
		s.late = s.late[1:]
		s.store(late)
	}
}

// each returns how often each row is in the streams of a name, and checks that every user's
// rows came in the order of their ids.
func (s *streams) each(t *testing.T, name string) map[int64]int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = 0
	for len(s.late) > 0 {
		s.store(nil)
	}
	times, newest := map[int64]int{}, map[int32]int64{}
	for shard := range 4 {
		for _, row := range s.logs[fmt.Sprintf("%s-%d", name, shard)] {
			times[row.ID]++
			if last := newest[row.Event.UserID]; row.ID < last {
				t.Errorf("user %d: row %d came after row %d", row.Event.UserID, row.ID, last)
			}
			newest[row.Event.UserID] = row.ID
		}
	}
	return times
}

func newStreams(t *testing.T) *streams {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &streams{name: "one", random: rand.New(rand.NewPCG(seed, 1)), faults: 30, last: map[string]int64{}, logs: map[string][]Row{}}
}

// more stores rows whose ids none has that were stored before.
func more(t *testing.T, db *Database, users, rows int) {
	t.Helper()
	n, err := db.Count(t.Context(), Filter{})
	must.OK(t, err)
	s := storeOn(t, db, StoreConfig{})
	for i := range rows {
		add(t, s, view(t, int32(i%users+1), int(n)+i))
	}
}

func restless() RelayConfig {
	config := brisk()
	config.BatchRows = 40 // many batches
	return config
}

// Relays publish while calls fail with what they sent stored, in part, or later.
//
// Promise(outbox/streams-once): To streams every row goes once: its group's number is noted durably
// before, and a stream drops a number that it has, whichever process sends it and when.
func TestEveryRowIsOnceInItsStream(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		const rows = 600
		s := newStreams(t)
		for range 3 {
			running(t, NewStreamRelay(db, s, restless(), quiet))
		}
		fill(t, db, 40, rows)
		drained(t, db)
		times := s.each(t, "one")
		for id, n := range times {
			if n != 1 {
				t.Errorf("row %d is in its stream %d times", id, n)
			}
		}
		if len(times) != rows {
			t.Errorf("%d of %d rows are in the streams", len(times), rows)
		}
		var notes int
		must.OK(t, db.pool.QueryRow("SELECT COUNT(*) FROM keyfold_publish_numbers WHERE noted IS NOT NULL").Scan(&notes))
		if notes != 0 {
			t.Errorf("%d shards have notes of what was published", notes)
		}
	})
}

// Another number of streams comes while events are on their way: none is lost, and none is
// twice in one stream.
func TestRowsFollowAnotherGeneration(t *testing.T) {
	onSQLite(t, func(t *testing.T, db *Database) {
		const rows = 400
		s := newStreams(t)
		running(t, NewStreamRelay(db, s, restless(), quiet))
		more(t, db, 40, rows/2)
		must.Hold(t, "rows are on their way", func() bool { return backlog(t, db).Unsent < rows/2 })
		s.mu.Lock()
		s.name = "two"
		s.mu.Unlock()
		more(t, db, 40, rows/2)
		drained(t, db)
		one, two := s.each(t, "one"), s.each(t, "two")
		all := map[int64]bool{}
		for _, times := range []map[int64]int{one, two} {
			for id, n := range times {
				all[id] = true
				if n != 1 {
					t.Errorf("row %d is in a stream %d times", id, n)
				}
			}
		}
		if len(all) != rows || len(two) < rows/2 {
			t.Errorf("%d rows are in the streams of before, %d in those of now, %d of %d in any", len(one), len(two), len(all), rows)
		}
		for _, row := range s.logs["two-0"] {
			if one[row.ID] > 0 && row.TriedAt == 0 {
				t.Errorf("row %d says nothing of its copy in the other stream", row.ID)
			}
		}
	})
}

// A relay that stood still notes nothing beside the one that has its shards by then.
func TestNumbersAreGivenOnce(t *testing.T) {
	onServers(t, func(t *testing.T, url string) {
		db := openAt(t, url)
		more(t, db, 1, 4)
		s := newStreams(t)
		s.faults = 0
		frozen := NewStreamRelay(db, s, brisk(), quiet)
		shard := engine.SlotOf(rowsOf(t, db, Filter{})[0].Event.UserID)
		l, err := frozen.lease(t.Context(), []int{shard})
		must.OK(t, err)
		numbers, err := frozen.numbersOf(t.Context(), l)
		must.OK(t, err)
		must.OK(t, l.end(false)) // as the server ends it

		r := NewStreamRelay(db, s, brisk(), quiet)
		batches(t, r)
		more(t, db, 1, 1)
		before := s.each(t, "one")
		rows, _, err := frozen.fetch(t.Context(), &lease{shards: []int{shard}, run: db.pool}, query{})
		must.OK(t, err)
		if _, _, err := frozen.try(t.Context(), rows, numbers); !errors.Is(err, errOtherRelay) || len(rows) != 1 {
			t.Errorf("a relay without its lease noted %d rows under numbers that another has given: %v", len(rows), err)
		}
		batches(t, r)
		if after := s.each(t, "one"); len(before) != 4 || len(after) != 5 {
			t.Errorf("%d rows, then %d", len(before), len(after))
		}
	})
}

// A database that was restored knows less than the broker.
func TestNumbersAreAboveTheBrokers(t *testing.T) {
	onSQLite(t, func(t *testing.T, db *Database) {
		s := newStreams(t)
		s.faults = 0
		r := NewStreamRelay(db, s, brisk(), quiet)
		more(t, db, 10, 100)
		batches(t, r)
		exec(t, db, "UPDATE keyfold_publish_numbers SET number = 0")
		more(t, db, 10, 100)
		batches(t, r)
		if times := s.each(t, "one"); len(times) != 200 {
			t.Errorf("%d of 200 rows are in the streams", len(times))
		}
	})
}

// A shop gives rows to another user, as two accounts become one: their shard stays.
func TestRowsOfAnotherShardThanTheirUsers(t *testing.T) {
	onEach(t, func(t *testing.T, db *Database) {
		s := newStreams(t)
		s.faults = 0
		more(t, db, 1, 3)
		other := int32(2)
		for engine.SlotOf(other) == engine.SlotOf(1) {
			other++
		}
		exec(t, db, "UPDATE user_interactions SET user_id = ? WHERE id = (SELECT id FROM (SELECT MAX(id) AS id FROM user_interactions) AS newest)", other)
		batches(t, NewStreamRelay(db, s, brisk(), quiet))
		if times := s.each(t, "one"); len(times) != 3 {
			t.Errorf("%d of 3 rows are in the streams", len(times))
		}
	})
}

// What another batch has noted is more than a slow relay's lease has time for.
func TestASlowRelayGetsPastALargeNote(t *testing.T) {
	onSQLite(t, func(t *testing.T, db *Database) {
		s := newStreams(t)
		s.faults = 0
		more(t, db, 1, 200)
		shard := engine.SlotOf(1)
		r := NewStreamRelay(db, s, RelayConfig{BatchRows: 400}, quiet)
		l := &lease{shards: []int{shard}, run: db.pool}
		_, p, _, err := r.prepare(t.Context(), l, query{})
		must.OK(t, err)
		noted := 0
		for _, g := range p.groups {
			noted += len(g.Rows)
		}
		slow := NewStreamRelay(db, s, RelayConfig{Rate: 1}, quiet)
		_, p, _, err = slow.prepare(t.Context(), l, query{})
		must.OK(t, err)
		w := newRounds(slow, nil)
		w.until = time.Now().Add(time.Minute)
		ended, end := context.WithCancel(t.Context())
		end() // a wait for the rate would fail
		w.runPlan(ended, t.Context(), p)
		if noted < 100 || len(w.sent) != noted {
			t.Errorf("%d of %d noted rows went out", len(w.sent), noted)
		}
	})
}
