package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// Story 4.1: the store is away while events come in, and while the worker is
// exchanged for another. Nothing is acknowledged meanwhile and nothing given up;
// when the store is back, every event is folded.
//
// Promise(event/dependency-away): While a dependency is away no attempt is used and nothing is
// dead-lettered.
func TestStory4_StoreUnavailableEventsWaitAndFold(t *testing.T) {
	i := newImpaired(t)
	s := i.repaired(t)
	first := s.work(t, quick).ready()
	bodies := sample.Events(sample.DefaultConfig(30))
	must.OK(t, i.store.RefuseConnections(0), i.store.Disconnect())
	s.publish(t, bodies...)
	first.opened()
	// What had not come when the breaker opened waits at the broker.
	s.unsubscribed(t)
	eventually(t, "all of them wait", func() error {
		unacked, waiting := first.metric("keyfold_rabbitmq_unacked"), s.depth(t, rabbit.DefaultNames().Queue)
		if unacked+int64(waiting) != int64(len(bodies)) || unacked == 0 {
			return fmt.Errorf("%d are held and %d wait at the broker, of %d", unacked, waiting, len(bodies))
		}
		return nil
	})
	if acked := first.metric("keyfold_rabbitmq_acked_total"); acked != 0 {
		t.Errorf("%d acknowledged without a store", acked)
	}
	first.stop()
	if n := s.depth(t, rabbit.DefaultNames().Queue); n != len(bodies) {
		t.Errorf("the broker has %d messages again, want %d", n, len(bodies))
	}
	second := s.work(t, quick)
	eventually(t, "the second worker waits for the store", func() error {
		if code, body := second.get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "store") {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	must.OK(t, i.store.AcceptConnections())
	s.settled(t, s.expect(t, bodies))
	if n := s.depth(t, rabbit.DefaultNames().DeadLetters); n != 0 {
		t.Errorf("%d dead letters by the store's absence", n)
	}
	second.ready().stop()
	s.emptied(t)
}

// Story 4.2: an event whose own work fails in every attempt is dead-lettered
// after the fifth retry, with all that went wrong, and an error is logged. Its
// neighbours are folded.
//
// Promise(event/retried): An event whose own work fails is retried 5 times, then dead-lettered with
// every error; no other event waits.
func TestStory4_FifthRetryFailsDeadLettered(t *testing.T) {
	i := newImpaired(t)
	s := i.repaired(t)
	if code, _, errs := s.run(t, "", "setup", "--retry-delay=20ms"); code != 0 {
		t.Fatal(errs)
	}
	// Another program writes this user whenever the worker is about to.
	match, err := bson.Marshal(bson.D{{Key: "user_id", Value: int32(42)}})
	must.OK(t, err)
	if _, err := i.store.Inject(mongotest.Fault{WriteError: 11000, Namespace: "keyfold.user_embeddings", Match: match}); err != nil {
		t.Fatal(err)
	}
	d := s.work(t, quick, "--retry-delay=20ms").ready()
	now := time.Now().Add(-time.Hour)
	good := [][]byte{event(1, profile.ProductView, 1, now, "good"), event(2, profile.Search, "mug", now, "good too")}
	s.publish(t, append(good, event(42, profile.ProductView, 1, now, "unlucky"))...)
	s.settled(t, s.expect(t, good))
	eventually(t, "it is given up", func() error {
		if n := s.depth(t, rabbit.DefaultNames().DeadLetters); n != 1 {
			return fmt.Errorf("%d dead letters", n)
		}
		return nil
	})
	letter := s.dump(t, rabbit.DefaultNames().DeadLetters)[0]
	if letter.MessageId != "unlucky" || letter.Headers["x-first-death-reason"] != engine.ReasonRetriesExhausted {
		t.Errorf("dead letter %q of reason %v", letter.MessageId, letter.Headers["x-first-death-reason"])
	}
	var told struct {
		Failure struct {
			Retries int      `json:"retry_count"`
			Errors  []string `json:"error_messages"`
			First   string   `json:"first_failure_at"`
			Last    string   `json:"last_failure_at"`
			Host    string   `json:"worker_host"`
		} `json:"failure_info"`
	}
	must.OK(t, json.Unmarshal(letter.Body, &told))
	if f := told.Failure; f.Retries != 5 || len(f.Errors) != 6 || f.First == "" || f.Last < f.First || f.Host == "" {
		t.Errorf("failure_info is %+v", f)
	}
	if n := d.metric("keyfold_retries_total"); n != 5 {
		t.Errorf("%d retries, want 5", n)
	}
	logged, again := false, 0
	for line := range strings.Lines(d.log.String()) {
		if strings.Contains(line, "event retry scheduled") && strings.Contains(line, `"unlucky"`) && strings.Contains(line, `"delay":"`) {
			again++
		}
		logged = logged || strings.Contains(line, `"ERROR"`) && strings.Contains(line, `"unlucky"`) && strings.Contains(line, `"user_id":42`)
	}
	if !logged || again != 5 {
		t.Errorf("no error names the event, or it was said %d times that it will be tried again:\n%s", again, d.log)
	}
}

// Story 4.3: the network fails after the write and before the acknowledgement:
// everything is delivered a second time, and nothing is folded twice.
//
// Promise(event/folded-once): An event that is delivered or published again is acknowledged and folded
// once.
// Figure: 0 doubled
func TestStory4_DeliveredTwiceFoldedOnce(t *testing.T) {
	i := newImpaired(t)
	d := i.work(t, "--batch-window=5").ready() // time to see them held, and to freeze
	direct := *i.stack
	direct.dsn = i.direct
	g := sample.DefaultConfig(15)
	g.Repeats = 0
	bodies := sample.Events(g)
	direct.publish(t, bodies...)
	d.holds(int64(len(bodies)))
	i.proxy.Freeze()
	expected := i.expect(t, bodies)
	i.settled(t, expected)
	versions := allProfiles(t, i.open(t))
	i.proxy.Cut() // what was under way is lost for good
	i.proxy.Thaw()
	eventually(t, "everything was delivered again", func() error {
		if n := d.metric(`keyfold_events_total{outcome="duplicate"}`); n != int64(len(bodies)) {
			return fmt.Errorf("%d duplicates, want %d", n, len(bodies))
		}
		return nil
	})
	for user, p := range allProfiles(t, i.open(t)) {
		if p.Version != versions[user].Version || p.EventCount != versions[user].EventCount {
			t.Errorf("user %d was written again: version %d after %d", user, p.Version, versions[user].Version)
		}
	}
	d.ready().stop()
	direct.emptied(t)
}

// A store error that belongs to one user's document takes its own way: others go
// on, and the event ends in the dead letters after its attempts.
//
// Promise(away/many-users)
func TestStory4_OneUsersStoreErrorIsItsOwn(t *testing.T) {
	i := newImpaired(t)
	s := i.repaired(t)
	if code, _, errs := s.run(t, "", "setup", "--retry-delay=20ms"); code != 0 {
		t.Fatal(errs)
	}
	match, err := bson.Marshal(bson.D{{Key: "user_id", Value: bson.D{{Key: "$gte", Value: int32(40)}}}})
	must.OK(t, err)
	const typeMismatch = 14
	if _, err := i.store.Inject(mongotest.Fault{WriteError: typeMismatch, Namespace: "keyfold.user_embeddings", Match: match}); err != nil {
		t.Fatal(err)
	}
	d := s.work(t, quick, "--retry-delay=20ms", "--max-retries=1").ready()
	now := time.Now().Add(-time.Hour)
	const unlucky = 20
	for user := range unlucky { // events of two users: more would be the store's fault
		s.publish(t, event(int32(40+user%2), profile.ProductView, 1, now, fmt.Sprint("unlucky ", user)))
	}
	var good [][]byte
	eventually(t, "the unlucky ones are given up, beside a user who is not", func() error {
		body := event(1, profile.ProductView, 1, now, fmt.Sprint("good ", len(good)))
		good = append(good, body)
		s.publish(t, body)
		if n := s.depth(t, rabbit.DefaultNames().DeadLetters); n != unlucky {
			return fmt.Errorf("%d dead letters, want %d", n, unlucky)
		}
		return nil
	})
	s.settled(t, s.expect(t, good))
	if n := d.metric("keyfold_dead_letters_total"); n != unlucky {
		t.Errorf("%d dead letters, want %d", n, unlucky)
	}
}
