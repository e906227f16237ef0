package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/proof/stack"
	"keyfold/source/rabbit"
)

// scenario is one fault that is looked at by itself, with the settings of a worker
// that was told nothing. Half of its events are one user's.
type scenario struct {
	events int   // published before the first worker starts
	fed    bool  // events are published meanwhile, at the run's rate
	folded int64 // before it begins
	bring  func(s *soak, ctx context.Context, r *rand.Rand) error
}

// hotUser makes half of a scenario's events.
const hotUser = 1

// scenarios are run by their names; workers are two to four, by the settings.
var scenarios = map[string]scenario{
	// kill -9 of workers alone, while they drain a backlog.
	"kills": {events: 46_000, bring: func(s *soak, ctx context.Context, r *rand.Rand) error {
		return s.killWorkers(ctx, r, s.Kills, 700*time.Millisecond)
	}},
	// kill -9 of the broker, each time while workers hold open windows.
	"broker": {fed: true, bring: func(s *soak, ctx context.Context, r *rand.Rand) error {
		if err := s.Broker.Sync(); err != nil {
			return err
		}
		for range s.Kills {
			if err := s.windowsOpen(ctx); err != nil {
				return err
			}
			if err := stack.Wait(ctx, time.Duration(r.Int64N(int64(time.Second)))); err != nil {
				return err
			}
			s.counts[killBroker]++
			s.Broker.Kill()
			if err := s.Broker.Boot(); err != nil {
				return err
			}
		}
		return nil
	}},
	// One worker's link to the broker falls silent while it holds its prefetch.
	"silent": {events: 16_000, folded: 500, bring: func(s *soak, ctx context.Context, _ *rand.Rand) error {
		return silence(ctx, s.relays[0].broker, 40*time.Second)
	}},
	// The store stands still for 0.8 s, and a worker that waits for it is killed.
	"paused": {events: 16_000, bring: func(s *soak, ctx context.Context, r *rand.Rand) error {
		for range 8 {
			if err := s.someFolded(ctx, 100); err != nil {
				return err
			}
			_ = s.store.Signal(syscall.SIGSTOP)
			err := stack.Wait(ctx, 800*time.Millisecond)
			if w, missing := s.fleet.await(ctx, r.IntN(8)); missing == nil {
				s.counts[killWorker]++
				s.fleet.kill(w)
			}
			_ = s.store.Signal(syscall.SIGCONT)
			if err != nil {
				return err
			}
		}
		return nil
	}},
	// The user is busy all the time, and workers are killed.
	"live": {fed: true, bring: func(s *soak, ctx context.Context, r *rand.Rand) error {
		return s.killWorkers(ctx, r, s.Kills, 2*time.Second)
	}},
	// What a write has become of stays unknown to one worker for ten minutes, while
	// others fold thousands of events of the user.
	"unknown": {fed: true, folded: 100, bring: func(s *soak, ctx context.Context, _ *rand.Rand) error {
		if err := s.store.inject(mongotest.Fault{Reply: mongotest.SwallowReply, Commands: []string{"update"}, Times: 1}); err != nil {
			return err
		}
		return silence(ctx, s.relays[0].store, s.Duration)
	}},
	// Bodies whose letters are larger than a broker takes.
	"oversized": {fed: true, bring: (*soak).publishOversized},
	// One user's profile cannot be read, until it is repaired.
	"unreadable": {fed: true, folded: 300, bring: (*soak).breakAProfile},
	// The whole store refuses every write, as one does whose disk is full: nothing is
	// dead-lettered by it.
	"refusals": {fed: true, folded: 100, bring: func(s *soak, ctx context.Context, _ *rand.Rand) error {
		if err := s.store.inject(mongotest.Fault{WriteError: 371, Namespace: s.database() + ".user_embeddings"}); err != nil {
			return err
		}
		return errors.Join(s.refusing(ctx), s.store.heal())
	}},
}

// silence holds what goes through a relay for a while.
func silence(ctx context.Context, relay *rabbittest.Proxy, d time.Duration) error {
	relay.Freeze()
	defer relay.Thaw()
	return stack.Wait(ctx, d)
}

// publishOversized publishes bodies that are no events and larger than a broker
// takes as base64: their letters have to be stored all the same.
func (s *soak) publishOversized(ctx context.Context, _ *rand.Rand) error {
	names := rabbit.DefaultNames()
	for i := range 3 {
		m := rabbit.Message{
			Exchange: names.Exchange, RoutingKey: names.RoutingKey(profile.Search),
			ID: fmt.Sprint("oversized-", i), Body: bytes.Repeat([]byte{0xff}, 13<<20),
		}
		if err := errors.Join(s.feed.publisher.Publish(ctx, []rabbit.Message{m})...); err != nil {
			return err
		}
		if err := s.ledger.add(&m); err != nil {
			return err
		}
		if err := s.someFolded(ctx, int64(s.Rate)); err != nil {
			return err
		}
	}
	return nil
}

// breakAProfile makes one user's document unreadable for a while: the others' events
// go on.
func (s *soak) breakAProfile(ctx context.Context, _ *rand.Rand) error {
	client, err := mongo.Connect(options.Client().ApplyURI(s.Profiles.URI))
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	users := client.Database(s.database()).Collection("user_embeddings")
	var broken struct {
		User    int32 `bson:"user_id"`
		Version int32 `bson:"version"`
	}
	after := bson.D{{Key: "version", Value: bson.D{{Key: "$gte", Value: 1}}}, {Key: "embedding", Value: bson.D{{Key: "$exists", Value: true}}}}
	unset := bson.D{{Key: "$unset", Value: bson.D{{Key: "version", Value: ""}}}}
	for done := false; !done; { // a worker may write in between
		if err := users.FindOne(ctx, after).Decode(&broken); err != nil {
			return err
		}
		read := bson.D{{Key: "user_id", Value: broken.User}, {Key: "version", Value: broken.Version}}
		result, err := users.UpdateOne(ctx, read, unset)
		if err != nil {
			return err
		}
		done = result.MatchedCount == 1
	}
	s.say("user %d has no version any more", broken.User)
	for range 5 {
		going, cancel := context.WithTimeout(ctx, 30*time.Second)
		err := s.someFolded(going, int64(s.Rate))
		cancel()
		if err != nil {
			return fmt.Errorf("others are not folded beside one unreadable profile: %w", err)
		}
	}
	_, err = users.UpdateOne(ctx, bson.D{{Key: "user_id", Value: broken.User}}, bson.D{{Key: "$set", Value: bson.D{{Key: "version", Value: broken.Version}}}})
	return err
}

// refusing watches the workers of a store that refuses every write: all become not
// ready, and none dead-letters an event.
func (s *soak) refusing(ctx context.Context) error {
	end := time.Now().Add(s.Duration)
	notReady := 0
	for time.Now().Before(end) {
		if err := stack.Wait(ctx, time.Second); err != nil {
			return err
		}
		notReady = 0
		for _, w := range s.fleet.running() {
			if code, _ := w.get("/readyz"); code == 503 {
				notReady++
			}
		}
	}
	if workers := len(s.fleet.running()); notReady < workers {
		return fmt.Errorf("%d of %d workers say that they are ready though the store refuses every write", workers-notReady, workers)
	}
	return nil
}

// killWorkers kills one of the workers again and again, pause apart on average.
func (s *soak) killWorkers(ctx context.Context, r *rand.Rand, times int, pause time.Duration) error {
	for range times {
		if err := stack.Wait(ctx, time.Duration(r.Int64N(int64(2*pause)))); err != nil {
			return err
		}
		w, err := s.fleet.await(ctx, r.IntN(8))
		if err != nil {
			return err
		}
		s.counts[killWorker]++
		s.fleet.kill(w)
	}
	return nil
}

// windowsOpen waits until a worker that is connected holds events in windows.
func (s *soak) windowsOpen(ctx context.Context) error {
	return stack.Poll(ctx, 50*time.Millisecond, func() (bool, error) {
		for _, w := range s.fleet.running() {
			w.scrape()
			if w.metric("keyfold_rabbitmq_connected") == 1 && w.metric("keyfold_open_windows") > 0 {
				return true, nil
			}
		}
		return false, nil
	})
}

// someFolded waits until n more events are folded.
func (s *soak) someFolded(ctx context.Context, n int64) error {
	folded := func() (sum int64) {
		for _, w := range s.fleet.running() {
			w.scrape()
		}
		return s.fleet.total("keyfold_events_total{outcome=\"folded\"}")
	}
	first := folded()
	return stack.Poll(ctx, 50*time.Millisecond, func() (bool, error) { return folded() >= first+n, nil })
}

// flood gives a share of the bodies to one user.
func flood(r *rand.Rand, bodies [][]byte, share float64) {
	for i, body := range bodies {
		if r.Float64() < share {
			bodies[i] = changed(body, "user_id", hotUser)
		}
	}
}

// hot tells what the busy user's profile came to.
func (s *soak) hot(ctx context.Context) string {
	profiles, err := s.ReadProfiles(ctx)
	if err != nil {
		return err.Error()
	}
	p := profiles[hotUser]
	if p == nil {
		return "no profile"
	}
	floor := "none dropped"
	if p.Applied.Floor != 0 {
		floor = "some dropped"
	}
	return fmt.Sprintf("%d events in %d writes, %d ids in %d groups, %d KiB, %s",
		p.EventCount, p.Version, len(p.Applied.IDs), len(p.Applied.Groups), (p.Applied.Size()+9*len(p.Vector))>>10, floor)
}

// events returns how many messages a run has to have at hand.
func (c settings) events() int {
	if chosen := scenarios[c.Scenario]; chosen.events > 0 {
		return chosen.events
	}
	return int(c.Duration.Seconds()*1.3+90) * c.Rate
}

func scenarioNames() string { return strings.Join(slices.Sorted(maps.Keys(scenarios)), ", ") }
