package score_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/score"
	"keyfold/source/vector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dimensions = 4

// api embeds, unless it hangs or fails.
type api struct {
	mu    sync.Mutex
	texts []string
	hung  atomic.Bool
	err   error
}

func (a *api) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if a.hung.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if a.err != nil {
		return nil, a.err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.texts = append(a.texts, texts...)
	vectors := make([][]float32, len(texts))
	for i := range vectors {
		vectors[i] = []float32{3, 4, 0, 0}
	}
	return vectors, nil
}
func (a *api) Model() string   { return "m" }
func (a *api) Dimensions() int { return dimensions }

// store has a profile for every even user.
type store struct {
	hung  atomic.Bool
	calls atomic.Int64
	of    func(user int32) *profile.Profile
	err   error
}

func (s *store) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	s.calls.Add(1)
	if s.hung.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	profiles := make([]*profile.Profile, len(users))
	for i, user := range users {
		if s.of != nil {
			profiles[i] = s.of(user)
		} else if user%2 == 0 {
			profiles[i] = profileOf(user)
		}
	}
	return profiles, s.err
}

func profileOf(user int32) *profile.Profile {
	return &profile.Profile{UserID: user, Version: 1, Vector: []float64{1, 0, 0, 0}, Mass: 1, History: profile.Mass, Model: "m"}
}

func event(kind notify.EventType, user, title string) *notify.Notification {
	return &notify.Notification{UserID: user, Type: kind, Title: title}
}

// policy lets texts leave as the shipped set does.
func policy() *notify.Policy {
	p := &notify.Policy{}
	for _, kind := range []notify.EventType{notify.Update, notify.Digest, notify.Promo} {
		p.Types[kind].EmbedText = true
	}
	return p
}

func newScores(t *testing.T, texts score.Texts, profiles score.Profiles) *score.Scores {
	t.Helper()
	c := score.DefaultConfig()
	c.History, c.Model, c.Faint = profile.Mass, "m", 0.15
	s, err := score.New(c, texts, profiles, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	return s
}

func phrases(t *testing.T, embedder vector.Embedder) *vector.Phrases {
	t.Helper()
	p, err := vector.NewBatched(vector.DefaultConfig(), vector.DefaultBatching(), embedder, nil)
	must.OK(t, err)
	t.Cleanup(p.Close)
	return p
}

func one(t *testing.T, s *score.Scores, e *notify.Notification) notify.Score {
	t.Helper()
	return s.Score(t.Context(), policy(), []*notify.Notification{e})[0]
}

func TestCosineOfTextAndProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScores(t, phrases(t, &api{}), &store{})
		if got := one(t, s, event(notify.Promo, "2", "Sale")); !got.Known || math.Abs(got.Cosine-.6) > 1e-9 || got.Skip != "" {
			t.Errorf("%+v", got)
		}
	})
}

// Promise(notify-worker/taste-away)
func TestWhyThereIsNoTaste(t *testing.T) {
	other := func(change func(*profile.Profile)) *store {
		return &store{of: func(user int32) *profile.Profile { p := profileOf(user); change(p); return p }}
	}
	for _, c := range []struct {
		name  string
		api   *api
		store *store
		event *notify.Notification
		want  notify.Skip
	}{
		{"security", &api{}, &store{}, event(notify.Security, "2", "Code 1234"), notify.SkipText},
		{"message", &api{}, &store{}, event(notify.Message, "2", "Hello"), notify.SkipText},
		{"reminder", &api{}, &store{}, event(notify.Reminder, "2", "Cart"), notify.SkipText},
		{"no number", &api{}, &store{}, event(notify.Promo, "ann", "Sale"), notify.SkipNoProfile},
		{"another spelling", &api{}, &store{}, event(notify.Promo, "02", "Sale"), notify.SkipNoProfile},
		{"too large", &api{}, &store{}, event(notify.Promo, "2147483648", "Sale"), notify.SkipNoProfile},
		{"no profile", &api{}, &store{}, event(notify.Promo, "3", "Sale"), notify.SkipNoProfile},
		{"erased", &api{}, other(func(p *profile.Profile) { *p = profile.Profile{UserID: 2, ErasedAt: 1} }), event(notify.Promo, "2", "Sale"), notify.SkipNoProfile},
		{"taken back", &api{}, other(func(p *profile.Profile) { p.Mass = 0.02 }), event(notify.Promo, "2", "Sale"), notify.SkipNoProfile},
		{"another model", &api{}, other(func(p *profile.Profile) { p.Model = "n" }), event(notify.Promo, "2", "Sale"), notify.SkipOtherProfile},
		{"another history", &api{}, other(func(p *profile.Profile) { p.History = profile.UnitMass }), event(notify.Promo, "2", "Sale"), notify.SkipOtherProfile},
		{"another dimension", &api{}, other(func(p *profile.Profile) { p.Vector = []float64{1} }), event(notify.Promo, "2", "Sale"), notify.SkipOtherProfile},
		{"unreadable", &api{}, &store{err: &engine.UnreadableError{Users: map[int32]error{2: errors.New("broken")}}}, event(notify.Promo, "2", "Sale"), notify.SkipOtherProfile},
		{"store fails", &api{}, &store{err: errors.New("no primary")}, event(notify.Promo, "2", "Sale"), notify.SkipProfilesAway},
		{"API fails", &api{err: errors.New("500")}, &store{}, event(notify.Promo, "2", "Sale"), notify.SkipEmbeddingAway},
		{"text refused", &api{err: engine.PermanentError("too_long", errors.New("400"))}, &store{}, event(notify.Promo, "2", "Sale"), notify.SkipRefused},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := one(t, newScores(t, phrases(t, c.api), c.store), c.event); got != (notify.Score{Skip: c.want}) {
				t.Errorf("%+v, want %s", got, c.want)
			}
			if len(c.api.texts) > 0 && c.want != notify.SkipOtherProfile {
				t.Errorf("%q left", c.api.texts)
			}
		})
	}
}

// Texts that must not leave stay also under a policy that was not read by lint, and
// among others that may.
//
// Promise(notify-worker/private-texts): A private type's text is never sent to the embedding API, also
// under a rule set that allows it, which lint refuses.
func TestPrivateTextsDoNotLeave(t *testing.T) {
	p := &notify.Policy{}
	for _, kind := range notify.EventTypes {
		p.Types[kind].EmbedText = true
	}
	a := &api{}
	s := newScores(t, phrases(t, a), &store{})
	var events []*notify.Notification
	for i, kind := range notify.EventTypes {
		events = append(events, event(kind, strconv.Itoa(2*i+2), kind.String()))
	}
	for i, got := range s.Score(t.Context(), p, events) {
		if private := events[i].Type.Private(); got.Known == private {
			t.Errorf("%s: %+v", events[i].Type, got)
		}
	}
	sent := strings.Join(a.texts, " ")
	if len(a.texts) != len(events)-2 || strings.Contains(sent, "SECURITY") || strings.Contains(sent, "MESSAGE") {
		t.Errorf("sent: %s", sent)
	}
}

// A text for 100,000 users is embedded once, also while 16 flushes ask for it at once.
//
// Promise(notify-worker/broadcast): One text for 100,000 users is one embedding.
// Figure: 1
func TestBroadcastIsOneEmbedding(t *testing.T) {
	const users, flush = 100_000, 10
	a := &api{}
	p := phrases(t, a)
	s := newScores(t, p, &store{of: profileOf})
	var next atomic.Int64
	var known atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for {
				first := int(next.Add(flush)) - flush
				if first >= users {
					return
				}
				events := make([]*notify.Notification, flush)
				for i := range events {
					events[i] = event(notify.Promo, strconv.Itoa(first+i+1), "Sale: 20 % off all shoes")
				}
				for _, got := range s.Score(context.Background(), policy(), events) {
					if got.Known {
						known.Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	if len(a.texts) != 1 || p.Stats().Embedded.Load() != 1 || known.Load() != users {
		t.Errorf("%d embeddings, %d of %d users have a score", len(a.texts), known.Load(), users)
	}
}

// waits asks for a score each 100 ms for a minute, a text of its own each time, and
// returns how long each call took.
func waits(t *testing.T, s *score.Scores, user string) (all []time.Duration, last notify.Score) {
	t.Helper()
	for i := range 600 {
		began := time.Now()
		last = one(t, s, event(notify.Promo, user, fmt.Sprint("Sale ", i)))
		all = append(all, time.Since(began))
		time.Sleep(100 * time.Millisecond)
	}
	return all, last
}

// Promise(notify-worker/taste-away)
func TestAHungServerIsWaitedForSeldomAndNeverLong(t *testing.T) {
	for name, c := range map[string]struct {
		hang       func(*api, *store, bool)
		late, away notify.Skip
	}{
		"embedding API": {func(a *api, _ *store, is bool) { a.hung.Store(is) }, notify.SkipEmbeddingLate, notify.SkipEmbeddingAway},
		"profile store": {func(_ *api, s *store, is bool) { s.hung.Store(is) }, notify.SkipProfilesLate, notify.SkipProfilesAway},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, st := &api{}, &store{}
				p := phrases(t, bounded{a})
				s := newScores(t, p, st)
				c.hang(a, st, true)
				if got := one(t, s, event(notify.Promo, "2", "Sale")); got.Skip != c.late {
					t.Errorf("the first: %+v", got)
				}
				all, last := waits(t, s, "4")
				waited := 0
				for i, d := range all {
					if d > 150*time.Millisecond {
						t.Fatalf("call %d took %v", i, d)
					}
					if d > 0 {
						waited++
					}
				}
				if waited > 2+12 { // until it opens, and one look each 5 s
					t.Errorf("%d of %d calls waited", waited, len(all))
				}
				if last.Skip != c.away || len(s.Notes()) != 1 {
					t.Errorf("the last: %+v, notes %q", last, s.Notes())
				}
				c.hang(a, st, false)
				time.Sleep(2 * time.Minute) // what hung has ended
				if got := one(t, s, event(notify.Promo, "6", "Back")); !got.Known || len(s.Notes()) != 0 {
					t.Errorf("after it: %+v, notes %q", got, s.Notes())
				}
				p.Close()
			})
		})
	}
}

// bounded ends calls as the API's client does.
type bounded struct{ vector.Embedder }

func (b bounded) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return b.Embedder.Embed(ctx, texts)
}

// What is in memory is used while both servers are away.
func TestMemoryNeedsNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, st := &api{}, &store{}
		p := phrases(t, bounded{a})
		s := newScores(t, p, st)
		broadcast := event(notify.Promo, "2", "Sale")
		want := one(t, s, broadcast)
		a.hung.Store(true)
		for range 3 {
			one(t, s, event(notify.Promo, "2", unmet()))
			time.Sleep(150 * time.Millisecond)
		}
		st.hung.Store(true)
		for range 3 {
			one(t, s, event(notify.Promo, unmet(), "Sale"))
			time.Sleep(150 * time.Millisecond)
		}
		began := time.Now()
		if got := one(t, s, broadcast); got != want || time.Since(began) > 0 || len(s.Notes()) != 2 {
			t.Errorf("%+v after %v, notes %q", got, time.Since(began), s.Notes())
		}
		p.Close()
	})
}

var drawn atomic.Int64

// unmet returns a number that no other call has.
func unmet() string { return strconv.FormatInt(100+2*drawn.Add(1), 10) }

// A profile is read again after its time, so that an erased one is not used for long.
func TestProfilesAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &store{}
		p := phrases(t, &api{})
		s := newScores(t, p, st)
		for range 5 {
			one(t, s, event(notify.Promo, "2", "Sale"))
		}
		if n := st.calls.Load(); n != 1 {
			t.Errorf("%d reads", n)
		}
		time.Sleep(time.Minute)
		st.of = func(user int32) *profile.Profile { return &profile.Profile{UserID: user, ErasedAt: 1} }
		if got := one(t, s, event(notify.Promo, "2", "Sale")); got.Skip != notify.SkipNoProfile {
			t.Errorf("after the erasure: %+v", got)
		}
		p.Close()
	})
}
