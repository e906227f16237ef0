package processor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/testserver/must"
)

// Promise(event/acknowledged)
func TestOneWriteAndOneReadForManyUsers(t *testing.T) {
	f := newFixture(t)
	var batches []profile.Batch
	var letters []*letter
	for user := int32(1); user <= 20; user++ {
		for i := range 3 {
			letters = append(letters, view(user, fmt.Sprint(user, "/", i), int32(i+1), engine.Millis(i)))
		}
		batches = append(batches, batch(letters[len(letters)-3:]...))
	}
	f.apply(batches...)
	for _, l := range letters {
		l.want(t, engine.Folded)
	}
	if f.ports.loads != 1 || f.ports.swaps != 1 || f.ports.lookups != 1 {
		t.Errorf("%d loads, %d swaps, %d look-ups for 20 users; want 1 each", f.ports.loads, f.ports.swaps, f.ports.lookups)
	}
	for name, n := range f.ports.asked {
		if n != 1 {
			t.Errorf("%s was asked for %d times", name, n)
		}
	}
	// The next batch of a known user needs no read.
	f.apply(batch(view(7, "7/next", 1, 9)))
	if f.ports.loads != 1 {
		t.Error("a profile in the cache was read again")
	}
	if p := f.profile(t, 7); p.Version != 2 || p.EventCount != 4 {
		t.Errorf("version %d with %d events, want 2 with 4", p.Version, p.EventCount)
	}
}

func TestDuplicates(t *testing.T) {
	f := newFixture(t)
	a, again, other := view(1, "a", 1, 5), view(1, "a", 1, 5), view(1, "b", 2, 6)
	f.apply(batch(a, again, other))
	if got := []engine.Outcome{a.one(t).Outcome, again.one(t).Outcome}; got[0] == got[1] {
		t.Errorf("the same id twice in a batch ended as %v", got)
	}
	late := view(1, "a", 1, 5)
	f.apply(batch(late))
	late.want(t, engine.Duplicate)
	if p := f.profile(t, 1); p.EventCount != 2 || p.Version != 1 {
		t.Errorf("%d events in version %d, want 2 in 1", p.EventCount, p.Version)
	}
}

// Promise(event/batch-mates): One event's failure spares the other events of its batch: the batch is
// halved until the event stands alone.
// Promise(event/bad-vector)
func TestOneEventsFailureSparesItsBatchMates(t *testing.T) {
	f := newFixture(t)
	broken := errors.New("look-up timed out")
	f.ports.vector = func(key string) (engine.Resolved, bool) {
		switch key {
		case "product 2":
			return engine.Resolved{Err: engine.ErrMissing}, true
		case "product 3":
			return engine.Resolved{Err: engine.PermanentError("not_finite", errors.New("NaN"))}, true
		case "phrase slow":
			return engine.Resolved{Err: broken}, true
		}
		return engine.Resolved{}, false
	}
	good, missing, dead, retry := view(1, "a", 1, 1), view(1, "b", 2, 2), view(1, "c", 3, 3), search(1, "d", "slow", 4)
	again := search(1, "d", "slow", 4)
	f.apply(batch(good, missing, dead, retry, again))
	good.want(t, engine.Folded)
	missing.want(t, engine.ProductMissing)
	if v := dead.want(t, engine.Dead); v.Reason != "not_finite" {
		t.Errorf("reason %q", v.Reason)
	}
	if v := retry.want(t, engine.Retry); !errors.Is(v.Err, broken) {
		t.Errorf("error %v", v.Err)
	}
	again.want(t, engine.Retry) // see TestCopiesShareAVerdict
	want := reference(f.config.Config, []profile.Event{good.event})
	if got := f.profile(t, 1); floats.Distance(got.Vector, want.Vector, 2) > 1e-12 || got.EventCount != 1 {
		t.Errorf("profile of %d events differs from the good event's", got.EventCount)
	}
}

// Promise(event/erased-user)
func TestErasedUser(t *testing.T) {
	f := newFixture(t)
	f.apply(batch(view(1, "a", 1, 1)))
	must.OK(t, f.store.Forget(context.Background(), 1, 77))
	// The engine still holds the profile: only the version check can tell.
	late, again := view(1, "b", 1, 99), view(1, "b", 1, 99)
	f.apply(batch(late, again))
	late.want(t, engine.UserErased)
	again.want(t, engine.UserErased)
	if p := f.profile(t, 1); !p.Erased() || p.Vector != nil {
		t.Errorf("the erased user came back: %+v", p)
	}
}

// Promise(event/past-horizon)
func TestPastHorizon(t *testing.T) {
	f := newFixture(t, func(c *processor.Config) { c.IDs = profile.IDLimits{Keep: 100, Max: 1000} })
	letters := make([]*letter, 100)
	for i := range letters {
		letters[i] = view(1, fmt.Sprint("old ", i), 1, 1)
	}
	f.apply(batch(letters...))
	f.apply(batch(view(1, "one more", 1, 2)))
	floor := f.profile(t, 1).Applied.Floor
	if floor == 0 {
		t.Fatal("nothing was dropped")
	}
	before, after, first := view(1, "x", 1, 3), view(1, "y", 1, 3), view(1, "z", 1, 3)
	before.firstSeen, after.firstSeen = floor, floor+1
	f.apply(batch(before, after, first))
	if v := before.want(t, engine.Dead); v.Reason != "past_horizon" {
		t.Errorf("reason %q", v.Reason)
	}
	after.want(t, engine.Folded)
	first.want(t, engine.Folded)
}

// Promise(event/configuration)
func TestConfigurationFaultHoldsEverything(t *testing.T) {
	for name, change := range map[string]func(*processor.Config){
		"other_history": func(c *processor.Config) { c.History = profile.UnitMass },
		"other_model":   func(c *processor.Config) { c.Model = "another" },

		"other_short_half_life": func(c *processor.Config) { c.ShortHalfLife = 0 },
	} {
		f := newFixture(t, func(c *processor.Config) { c.ShortHalfLife = time.Minute })
		f.apply(batch(view(1, "a", 1, 1)))
		change(&f.config)
		f.Engine = f.engine(t)
		held, fine := view(1, "b", 1, 2), view(2, "c", 1, 2)
		f.apply(batch(held), batch(fine))
		held.want(t, engine.Unsettled)
		fine.want(t, engine.Folded)
		if len(f.faults) != 1 || engine.ReasonOf(f.faults[0]) != name || engine.KindOf(f.faults[0]) != engine.Configuration {
			t.Errorf("%s: faults %v", name, f.faults)
		}
		if p := f.profile(t, 1); p.Version != 1 {
			t.Errorf("%s: the profile was written", name)
		}
	}
}

// Two workers with caches of their own write one user: the second meets a
// conflict, reads, and both events are there.
//
// Promise(rabbitmq/shared-windows): Workers that split a user's window stay correct by conflicts that
// are folded again; where the cache proves stale profiles are read first.
func TestConflictFoldsAgain(t *testing.T) {
	f := newFixture(t)
	other := f.engine(t)
	f.apply(batch(view(1, "a", 1, 1)))
	other.Apply(context.Background(), []profile.Batch{batch(view(1, "b", 2, 2))})
	mine, theirs := view(1, "c", 3, 3), view(1, "b", 2, 2)
	f.apply(batch(mine, theirs)) // stale cache; b is the other worker's
	mine.want(t, engine.Folded)
	theirs.want(t, engine.Duplicate)
	if n := f.Stats().Conflicts.Load(); n != 1 {
		t.Errorf("%d conflicts, want 1", n)
	}
	if p := f.profile(t, 1); p.EventCount != 3 || p.Version != 3 {
		t.Errorf("%d events, version %d", p.EventCount, p.Version)
	}
}

func TestConflictsEndInRetry(t *testing.T) {
	f := newFixture(t)
	f.ports.swap = func(_ context.Context, p []*profile.Profile) []error {
		return []error{engine.ErrConflict}
	}
	l := view(1, "a", 1, 1)
	f.apply(batch(l))
	l.want(t, engine.Retry)
	if f.ports.swaps != 1+f.config.Conflicts {
		t.Errorf("%d writes tried, want %d", f.ports.swaps, 1+f.config.Conflicts)
	}
}

// A write whose answer was lost is found by its ids and not folded twice.
//
// Promise(mongodb/unknown)
func TestLostReply(t *testing.T) {
	for _, reported := range []error{engine.ErrUnknown, errors.New("connection reset")} {
		f := newFixture(t)
		f.config.Pause = time.Millisecond
		f.Engine = f.engine(t)
		f.ports.swap = func(ctx context.Context, p []*profile.Profile) []error {
			f.store.Swap(ctx, p)
			f.ports.swap = nil
			return []error{reported}
		}
		l := view(1, "a", 1, 1)
		f.apply(batch(l))
		l.want(t, engine.Folded)
		if p := f.profile(t, 1); p.EventCount != 1 || p.Version != 1 {
			t.Errorf("%d events, version %d", p.EventCount, p.Version)
		}
	}
}

// Promise(event/dependency-away)
func TestStoreAwayHoldsAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		var down atomic.Bool
		down.Store(true)
		f.ports.load = func(ctx context.Context, users []int32) ([]*profile.Profile, error) {
			if down.Load() {
				return nil, errors.New("no route to host")
			}
			return f.store.Load(ctx, users)
		}
		l := view(1, "a", 1, 1)
		done := make(chan struct{})
		go func() { f.apply(batch(l)); close(done) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(l.verdicts) != 0 {
			t.Fatalf("settled while the store is away: %v", l.verdicts)
		}
		down.Store(false)
		<-done
		l.want(t, engine.Folded)

		down.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		held := view(2, "b", 1, 1)
		f.Apply(ctx, []profile.Batch{batch(held)})
		held.want(t, engine.Unsettled)
	})
}

// While the store is known to be away nothing is asked of it, and when the wait
// is over without it the events are held.
func TestAwaitStandsBeforeTheStore(t *testing.T) {
	f := newFixture(t)
	errHeld := errors.New("held for too long")
	var awaited error
	f.await = func(context.Context) (bool, error) { return false, awaited }
	e := f.engine(t)
	awaited = errHeld
	held := view(1, "a", 1, 1)
	e.Apply(t.Context(), []profile.Batch{batch(held)})
	if v := held.want(t, engine.Unsettled); !errors.Is(v.Err, errHeld) {
		t.Errorf("held for %v", v.Err)
	}
	if f.ports.loads+f.ports.swaps+f.ports.lookups != 0 {
		t.Error("the store was asked")
	}
	awaited = nil
	folded := view(1, "a", 1, 1)
	e.Apply(t.Context(), []profile.Batch{batch(folded)})
	folded.want(t, engine.Folded)
}

// A store that works for others and fails one user's writes: after some rounds
// that user's events are tried again later, with an attempt used.
func TestOneUsersFailureIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.await = func(ctx context.Context) (bool, error) { return false, ctx.Err() }
		e := f.engine(t)
		f.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
			answers := f.store.Swap(ctx, profiles)
			for i, p := range profiles {
				if p.UserID == 2 {
					answers[i] = errors.New("type mismatch")
				}
			}
			return answers
		}
		f.ports.load = func(ctx context.Context, users []int32) ([]*profile.Profile, error) {
			return make([]*profile.Profile, len(users)), nil
		}
		good, bad := view(1, "a", 1, 1), view(2, "b", 1, 1)
		e.Apply(t.Context(), []profile.Batch{batch(good), batch(bad)})
		good.want(t, engine.Folded)
		bad.want(t, engine.Retry)
		if f.ports.swaps != f.config.Failures {
			t.Errorf("%d writes, want %d", f.ports.swaps, f.config.Failures)
		}
	})
}

// A store that comes and goes a few times costs no event an attempt.
func TestAnAbsentStoreUsesNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.await = func(ctx context.Context) (bool, error) { return true, ctx.Err() }
		e := f.engine(t)
		calls := 0
		f.ports.load = func(ctx context.Context, users []int32) ([]*profile.Profile, error) {
			if calls++; calls < f.config.Failures {
				return nil, errors.New("no route to host")
			}
			return f.store.Load(ctx, users)
		}
		l := view(1, "a", 1, 1)
		e.Apply(t.Context(), []profile.Batch{batch(l)})
		l.want(t, engine.Folded)
	})
}

// A phrase whose embedder is away parks its event; product events of the same
// batch go on.
func TestPhraseAwayParksItsEvent(t *testing.T) {
	f := newFixture(t)
	f.ports.vector = func(key string) (engine.Resolved, bool) {
		if key == "phrase socks" {
			return engine.Resolved{Err: fmt.Errorf("breaker open: %w", engine.ErrAway)}, true
		}
		return engine.Resolved{}, false
	}
	parked, folded := search(1, "a", "socks", 1), view(1, "b", 1, 2)
	f.apply(batch(parked, folded))
	if v := parked.want(t, engine.Park); !errors.Is(v.Err, engine.ErrAway) {
		t.Errorf("parked for %v", v.Err)
	}
	folded.want(t, engine.Folded)
	if n := f.profile(t, 1).EventCount; n != 1 {
		t.Errorf("%d events folded", n)
	}
}

// The catalogue is a store too: while it is away its events are held, also
// those of cached profiles, and no attempt is counted.
//
// Promise(event/dependency-away)
func TestCatalogueAwayHoldsAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.apply(batch(view(1, "known", 1, 1))) // its profile is in the cache now
		var down atomic.Bool
		down.Store(true)
		f.ports.vector = func(key string) (engine.Resolved, bool) {
			return engine.Resolved{Err: errors.New("no route to host")}, down.Load() && key == "product 2"
		}
		l := view(1, "a", 2, 2)
		done := make(chan struct{})
		go func() { f.apply(batch(l)); close(done) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(l.verdicts) != 0 {
			t.Fatalf("settled while the catalogue is away: %v", l.verdicts)
		}
		down.Store(false)
		<-done
		l.want(t, engine.Folded)

		down.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		held := view(1, "b", 2, 3)
		f.Apply(ctx, []profile.Batch{batch(held)})
		held.want(t, engine.Unsettled)
	})
}

// A look-up that ends because the worker stops costs no attempt.
func TestStoppingIsNoFailedAttempt(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(context.Background())
	f.ports.vector = func(string) (engine.Resolved, bool) {
		cancel()
		return engine.Resolved{Err: ctx.Err()}, true
	}
	l := search(1, "a", "anything", 1)
	f.Apply(ctx, []profile.Batch{batch(l)})
	l.want(t, engine.Unsettled)
}

// A long silence is counted, also behind a late event.
func TestLongGapsAreCounted(t *testing.T) {
	const day = 24 * 3600 * 1000
	f := newFixture(t)
	f.apply(batch(view(1, "a", 1, 100*day)))
	f.apply(batch(view(1, "late", 1, 1), view(1, "b", 1, 189*day)))
	if n := f.Stats().Stale.Load(); n != 0 {
		t.Errorf("%d long gaps before there was one", n)
	}
	f.apply(batch(view(1, "later", 1, 2), view(1, "c", 1, 280*day)))
	if n := f.Stats().Stale.Load(); n != 1 {
		t.Errorf("%d long gaps, want 1", n)
	}
	f.apply(batch(view(2, "first", 1, day), view(2, "second", 1, 102*day))) // within a new user's first batch
	if n := f.Stats().Stale.Load(); n != 2 {
		t.Errorf("%d long gaps, want 2", n)
	}
}

// A document the store rejects: batch mates are saved one by one.
//
// Promise(event/rejected-profile)
func TestRejectedDocument(t *testing.T) {
	f := newFixture(t)
	bad := profile.DigestOf("bad").ID()
	f.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
		errs := make([]error, len(profiles))
		for i, p := range profiles {
			for _, id := range p.Applied.IDs {
				if id == bad {
					errs[i] = engine.PermanentError("document_rejected", errors.New("failed validation"))
				}
			}
			if errs[i] == nil {
				errs[i] = f.store.Swap(ctx, []*profile.Profile{p})[0]
			}
		}
		return errs
	}
	a, b, again, c, other := view(1, "a", 1, 1), view(1, "bad", 2, 2), view(1, "bad", 2, 2), view(1, "c", 3, 3), view(2, "d", 1, 1)
	f.apply(batch(a, b, again, c), batch(other))
	for _, l := range []*letter{a, c, other} {
		l.want(t, engine.Folded)
	}
	if v := b.want(t, engine.Dead); v.Reason != "document_rejected" {
		t.Errorf("reason %q", v.Reason)
	}
	again.want(t, engine.Dead)
	if p := f.profile(t, 1); p.EventCount != 2 {
		t.Errorf("%d events, want 2", p.EventCount)
	}
}

// last_event_type belongs to the newest event by (occurred_at, message_id),
// also when events of one instant come in different batches.
func TestNewestEventAcrossBatches(t *testing.T) {
	f := newFixture(t)
	newest := view(1, "m", 1, 50)
	newest.event.Type = profile.ProductPurchase
	f.apply(batch(newest))
	f.apply(batch(view(1, "a", 1, 50)))
	f.apply(batch(view(1, "z", 1, 49)))
	if p := f.profile(t, 1); p.LastType != profile.ProductPurchase || p.LastID != "m" || p.Updated != 50 {
		t.Errorf("newest is %s %q at %d", p.LastType, p.LastID, p.Updated)
	}
	f.apply(batch(view(1, "n", 1, 50)))
	if p := f.profile(t, 1); p.LastType != profile.ProductView || p.LastID != "n" {
		t.Errorf("newest is %s %q", p.LastType, p.LastID)
	}
}

func TestCacheIsBounded(t *testing.T) {
	f := newFixture(t, func(c *processor.Config) { c.CacheBytes = 2000 })
	for user := int32(1); user <= 50; user++ {
		f.apply(batch(view(user, fmt.Sprint(user), 1, 1)))
	}
	before := f.Stats().Reads.Load()
	f.apply(batch(view(50, "again", 1, 2)))
	f.apply(batch(view(1, "again", 1, 2)))
	if got := f.Stats().Reads.Load() - before; got != 1 {
		t.Errorf("%d reads: the last user must be held, the first must not", got)
	}
}

// A cancelled sum keeps its direction and has no mass.
func TestCancelledProfile(t *testing.T) {
	f := newFixture(t)
	x := vectorOf("product 1")
	minus := make([]float64, len(x))
	floats.ScaleTo(minus, -1, x)
	f.ports.vector = func(key string) (engine.Resolved, bool) {
		return engine.Resolved{Vector: minus}, key == "product 2"
	}
	f.apply(batch(view(1, "a", 1, 1), view(1, "b", 2, 1)))
	if p := f.profile(t, 1); p.Mass != 0 || math.Abs(floats.Norm(p.Vector, 2)-1) > 1e-12 {
		t.Errorf("mass %v, length %v", p.Mass, floats.Norm(p.Vector, 2))
	}
}

func TestConfigSaysEveryFault(t *testing.T) {
	c := processor.Config{}
	c.Weights[profile.ProductView] = math.NaN()
	_, err := processor.New(c, processor.Ports{})
	for _, name := range []string{"Dimensions is", "History is", "profile.Weights.View", "profile.Weights.Search", "store pause"} {
		if err == nil || !contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
}

// Every line about an event names it, its user and which attempt it was; that of a
// retry also how long it waits.
func TestLogLinesNameTheEvent(t *testing.T) {
	f := newFixture(t)
	f.ports.vector = func(key string) (engine.Resolved, bool) {
		switch key {
		case "product 7":
			return engine.Resolved{Err: engine.ErrMissing}, true
		case "phrase slow":
			return engine.Resolved{Err: errors.New("503")}, true
		case "phrase bad":
			return engine.Resolved{Err: engine.PermanentError("embedding_refused", errors.New("400"))}, true
		}
		return engine.Resolved{}, false
	}
	var out bytes.Buffer
	f.log = slog.New(slog.NewJSONHandler(&out, nil))
	b := batch(view(5, "skipped", 7, 1), search(5, "retried", "slow", 2), search(5, "dead", "bad", 3))
	for i := range b.Deliveries {
		b.Deliveries[i].Attempt = 3
		b.Deliveries[i].RetryDelay = 20 * time.Second
	}
	f.engine(t).Apply(t.Context(), []profile.Batch{b})
	named := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		var l struct {
			UserID    int    `json:"user_id"`
			MessageID string `json:"message_id"`
			EventType string `json:"event_type"`
			Attempt   int    `json:"attempt"`
			Error     string `json:"error"`
			Delay     int64  `json:"delay"`
		}
		must.OK(t, json.Unmarshal([]byte(line), &l))
		if retried := l.MessageID == "retried"; retried != (l.Delay == int64(20*time.Second)) {
			t.Errorf("the line of a retry, and no other, names its delay: %s", line)
		}
		if l.UserID != 5 || l.EventType == "" || l.Attempt != 3 || l.Error == "" || named[l.MessageID] {
			t.Errorf("%s", line)
		}
		named[l.MessageID] = true
	}
	if len(named) != 3 {
		t.Errorf("lines about %v", named)
	}
}
