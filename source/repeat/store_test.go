package repeat

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config(server *redistest.Server) Config {
	c := DefaultConfig()
	c.URL, c.Capacity = server.URL(), minCapacity
	c.Timeout *= 50 // these tests are of what is answered, not of when
	c.Breaker.ProbeTimeout *= 50
	c.Breaker.Silence *= 50
	return c
}

func open(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := New(c, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// posting is the i-th event of a series.
func posting(series byte, i int) notify.Posting {
	name := []byte(fmt.Sprintf("%d %d", series, i))
	return notify.Posting{EventID: uuid.NewSHA1(uuid.Nil, name), Content: uuid.NewSHA1(uuid.Max, name), User: "user " + strconv.Itoa(i)}
}

func postingsOf(series byte, from, to int) (all []notify.Posting) {
	for i := from; i < to; i++ {
		all = append(all, posting(series, i))
	}
	return all
}

// looked is what a look-up says of one event.
func looked(s *Store, p notify.Posting) notify.Repeat {
	return s.Lookup(context.Background(), []notify.Posting{p})[0]
}

// Only the same event of the same user with the same content is a repeat. One that differs
// is never certainly new, so that the ledger is asked.
//
// Promise(api/redis)
func TestAnswers(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, config(server))
	p := posting(1, 1)
	if got := looked(s, p); got != notify.RepeatUnknown {
		t.Errorf("an empty Redis says %d", got)
	}
	must.OK(t, s.add(t.Context(), []notify.Posting{p}))
	otherUser, otherContent, none := p, p, p
	otherUser.User, otherContent.Content, none.Content = "18", uuid.New(), uuid.Nil
	for want, asked := range map[notify.Repeat][]notify.Posting{
		notify.RepeatKnown: {p}, notify.RepeatNew: {posting(1, 2)}, notify.RepeatUnknown: {otherUser, otherContent, none},
	} {
		for _, one := range asked {
			if got := looked(s, one); got != want {
				t.Errorf("%+v: %d, expected %d", one, got, want)
			}
		}
	}
	server.Do(t, "DEL", key(p.EventID))
	if got := looked(s, p); got != notify.RepeatUnknown {
		t.Errorf("without its key: %d", got)
	}
	if ttl := server.Do(t, "TTL", bloomKey); ttl != ":-1" {
		t.Errorf("the hash ends in %s", ttl)
	}
	must.OK(t, s.add(t.Context(), []notify.Posting{p}))
	if ttl := server.Do(t, "TTL", key(p.EventID)); ttl != ":86400" && ttl != ":86399" && ttl != ":86398" {
		t.Errorf("a key ends in %s", ttl)
	}
	if got := server.Do(t, "HGET", bloomKey, "items:1"); got != "1" {
		t.Errorf("counted %s after the same event twice", got)
	}
	server.Do(t, "DEL", bloomKey+":1") // evicted
	if got := looked(s, posting(1, 2)); got != notify.RepeatUnknown {
		t.Errorf("without the generation: %d", got)
	}
	server.Do(t, "SCRIPT", "FLUSH")
	if err := s.add(t.Context(), []notify.Posting{p}); err != nil { // a new generation, by a script that is loaded anew
		t.Fatal(err)
	}
	if got := looked(s, posting(1, 2)); got != notify.RepeatNew {
		t.Errorf("in a new generation: %d", got)
	}
}

// filterOf reads a generation as it is stored.
func filterOf(t testing.TB, s *Store, name string) string {
	t.Helper()
	text, err := s.client.Get(context.Background(), bloomKey+":"+name).Result()
	must.OK(t, err)
	return text
}

// falsePositives is the exact probability that an event that was never added finds all of
// its bits set.
func falsePositives(filter string) (sum float64) {
	for from := 0; from < len(filter); from += blockBytes {
		set := 0
		for _, b := range []byte(filter[from : from+blockBytes]) {
			set += bits.OnesCount8(b)
		}
		sum += math.Pow(float64(set)/(8*blockBytes), hashes)
	}
	return sum / float64(len(filter)/blockBytes)
}

func held(filter string, id uuid.UUID) bool {
	at := spotOf(id)
	from := int(at.block) % (len(filter) / blockBytes) * blockBytes
	return at.in(filter[from : from+blockBytes])
}

// fillFilter adds events to the filter alone, without their keys.
func fillFilter(t testing.TB, s *Store, events []notify.Posting) {
	t.Helper()
	args := []any{s.config.Capacity, int(s.config.Full * 10_000), s.config.Window.Milliseconds(), hashes}
	for _, e := range events {
		args = spotOf(e.EventID).append(args)
	}
	must.OK(t, bloomAdd.Run(context.Background(), s.client, []string{bloomKey}, args...).Err())
}

// Through 5 rotations every event is in the generations that are read, and each of these
// takes the memory that was computed and has at most 0.01 % false positives.
//
// Promise(api/filter): A full or rotating filter of posted events never calls an event of the last 24
// h new; each generation is opened once.
// Figure: 10,000,000 events at 22 bits: 0 missed, 0.01021 % false positives, 29.4 MB
func TestRotations(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "no")
	c := config(server)
	c.Capacity = 5_000
	s := open(t, c)
	const perRotation, rotations, at = 3_500, 5, 100
	total := perRotation*rotations + at
	for i := 0; i < total; i += at {
		fillFilter(t, s, postingsOf(1, i, i+at))
	}
	if got := server.Do(t, "HGET", bloomKey, "current"); got != strconv.Itoa(rotations+1) {
		t.Fatalf("generation %s", got)
	}
	var filters []string
	for g := 1; g <= rotations+1; g++ {
		name := strconv.Itoa(g)
		filters = append(filters, filterOf(t, s, name))
		checkGeneration(t, server, c.Capacity, name, filters[g-1])
		if ttl := server.Do(t, "PTTL", bloomKey+":"+name); (ttl == ":-1") != (g == rotations+1) {
			t.Errorf("generation %d ends in %s ms", g, ttl)
		}
	}
	for i := range total {
		in := false
		for _, filter := range filters {
			in = in || held(filter, posting(1, i).EventID)
		}
		if !in {
			t.Fatalf("event %d is in no generation", i)
		}
	}
	looked(s, posting(1, 0)) // which learns of the generations
	for i, answer := range s.Lookup(t.Context(), postingsOf(1, 0, total)) {
		if answer == notify.RepeatNew {
			t.Fatalf("event %d is said to be new", i)
		}
	}
	fresh := 0
	for part := range slices.Chunk(postingsOf(2, 0, 10_000), 250) { // as many as a request has
		for _, answer := range s.Lookup(t.Context(), part) {
			if answer == notify.RepeatNew {
				fresh++
			}
		}
	}
	if fresh < 9_990 {
		t.Errorf("%d of 10,000 new events are said to be new", fresh)
	}
}

// checkGeneration checks memory and false positives.
func checkGeneration(t testing.TB, server *redistest.Server, capacity int, name, filter string) {
	t.Helper()
	if want := (capacity*89 + 2047) / 2048 * blockBytes; len(filter) != want {
		t.Errorf("generation %s has %d bytes, computed %d", name, len(filter), want)
	}
	used, err := strconv.Atoi(server.Do(t, "MEMORY", "USAGE", bloomKey+":"+name)[1:])
	if err != nil || used > 2*len(filter)+1024 || used > len(filter)+2<<20 { // Redis reserves up to 1 MB at the end
		t.Errorf("generation %s uses %d bytes of memory for %d: %v", name, used, len(filter), err)
	}
	rate := falsePositives(filter)
	t.Logf("generation %s: %d bytes, %d of memory, %.5f %% false positives", name, len(filter), used, 100*rate)
	if rate > 1e-4 {
		t.Errorf("generation %s: %.5f %% false positives", name, 100*rate)
	}
}

// A generation that is full to its whole capacity.
//
// Promise(api/filter)
func TestFullCapacity(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "no")
	c := config(server)
	c.Full, c.Capacity = 1, 100_000
	soak := os.Getenv("KEYFOLD_SOAK") != ""
	if soak {
		c.Capacity = DefaultConfig().Capacity
	}
	s := open(t, c)
	for i := 0; i < c.Capacity; i += 500 {
		fillFilter(t, s, postingsOf(1, i, i+500))
	}
	filter := filterOf(t, s, "1")
	for i := range c.Capacity {
		if !held(filter, posting(1, i).EventID) {
			t.Fatalf("event %d is not in the filter", i)
		}
	}
	if !soak { // a few blocks of so small a filter are fuller than those of a large one
		if rate := falsePositives(filter); rate > 1.2e-4 {
			t.Errorf("%.5f %% false positives", 100*rate)
		}
		return
	}
	checkGeneration(t, server, c.Capacity, "1", filter)
}

// Two APIs that rotate at once open each generation once, and no event is lost.
//
// Promise(api/filter)
func TestTwoRotateAtOnce(t *testing.T) {
	server := redistest.Start(t)
	c := config(server)
	const each, at, closes = 4_000, 50, 700
	stores := [2]*Store{open(t, c), open(t, c)}
	var both sync.WaitGroup
	for n, s := range stores {
		both.Go(func() {
			for i := 0; i < each; i += at {
				if err := s.add(context.Background(), postingsOf(byte(n), i, i+at)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	current, err := strconv.Atoi(server.Do(t, "HGET", bloomKey, "current"))
	if err != nil || current < 2*each/closes || current > 2*each/closes+1 {
		t.Errorf("generation %d: %v", current, err)
	}
	for g := 1; g < current; g++ {
		if got := server.Do(t, "HGET", bloomKey, "items:"+strconv.Itoa(g)); got != strconv.Itoa(closes) {
			t.Errorf("generation %d closed with %s", g, got)
		}
	}
	for n := range stores {
		for _, s := range stores {
			looked(s, posting(9, 9))
			for i, answer := range s.Lookup(t.Context(), postingsOf(byte(n), 0, each)) {
				if answer != notify.RepeatKnown {
					t.Fatalf("event %d of %d: %d", i, n, answer)
				}
			}
		}
	}
}

// What is confirmed while Redis is frozen or away holds up no caller, and Redis is used
// again by itself.
//
// Promise(api/redis)
func TestAway(t *testing.T) {
	server := redistest.Start(t)
	var log bytes.Buffer
	c := DefaultConfig()
	c.URL, c.Capacity = server.URL(), minCapacity
	s, err := New(c, slog.New(slog.NewTextHandler(&log, nil)))
	must.OK(t, err)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	known := func(i int) func() bool {
		return func() bool {
			s.Confirmed(postingsOf(1, i, i+1))
			return looked(s, posting(1, i)) == notify.RepeatKnown
		}
	}
	must.Hold(t, "the first event", known(1))
	for i, fault := range []func() (cure func()){
		func() func() { server.Freeze(t); return func() { server.Thaw(t) } },
		func() func() { server.Kill(); return func() { server.Restart(t) } },
	} {
		cure := fault()
		must.Hold(t, "an open breaker", func() bool {
			if looked(s, posting(1, 1)) != notify.RepeatUnknown {
				t.Error("an answer of a server that is away")
			}
			return s.State().Open
		})
		cure()
		must.Hold(t, "Redis is used again", known(i+2))
	}
	if s.stats.away.Load() == 0 {
		t.Error("no look-up was counted as away")
	}
}

// Faults of the settings are named without the password.
func TestConfig(t *testing.T) {
	c := DefaultConfig()
	c.Capacity, c.URL = 1, "redis://user:s3cret@host:port"
	err := c.Check()
	if err == nil || !bytes.Contains([]byte(err.Error()), []byte("repeat.Config.Capacity is 1")) ||
		!bytes.Contains([]byte(err.Error()), []byte("repeat.Config.URL")) || bytes.Contains([]byte(err.Error()), []byte("s3cret")) {
		t.Errorf("%v", err)
	}
}
