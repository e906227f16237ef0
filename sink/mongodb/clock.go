package mongodb

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine"
)

// Bounds of how long one answer of the server tells the time.
const (
	clockAge  = 10 * time.Second
	clockStep = time.Second // this machine's clock was set, or the machine slept
)

// clock tells the server's time from its last answer and the time passed since.
type clock struct {
	turn chan struct{} // holds a token while the fields below are free to use

	server  time.Time // as it answered
	at      time.Time // when, by this machine's clocks; zero before the first answer
	failure error     // of the last question, which ended at failed
	failed  time.Time
}

func newClock() *clock {
	c := &clock{turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

// now returns the server's time at an instant of this machine; ok is false where
// the last answer is too old to tell.
func (c *clock) now(at time.Time) (server time.Time, ok bool) {
	passed := at.Sub(c.at)
	step := at.Round(0).Sub(c.at.Round(0)) - passed
	if c.at.IsZero() || passed < 0 || passed > clockAge || step.Abs() > clockStep {
		return time.Time{}, false
	}
	return c.server.Add(passed), true
}

// Now implements [profile.Profiles]. It asks the server every ten seconds.
func (s *Store) Now(ctx context.Context) (engine.Millis, error) {
	const doing = "ask for the server's time"
	began := time.Now()
	c := s.clock
	select {
	case <-c.turn:
		defer func() { c.turn <- struct{}{} }()
	case <-ctx.Done():
		return 0, ended(ctx, doing)
	}
	if server, ok := c.now(time.Now()); ok {
		return engine.MillisOf(server), nil
	}
	if c.failed.After(began) { // another caller has asked meanwhile
		return 0, c.failure
	}
	asked := time.Now() // a process that is frozen before it reads the answer is not late by that
	server, err := s.serverTime(ctx, doing)
	if err != nil {
		c.failure, c.failed = err, time.Now()
		return 0, err
	}
	c.server, c.at = server, asked
	return engine.MillisOf(server.Add(time.Since(asked))), nil
}

// serverTime asks the server for its time.
func (s *Store) serverTime(ctx context.Context, doing string) (time.Time, error) {
	if err := ended(ctx, doing); err != nil {
		return time.Time{}, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	var answer struct {
		LocalTime time.Time `bson:"localTime"`
	}
	if err := s.database.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&answer); err != nil {
		return time.Time{}, mark(doing, err)
	}
	if answer.LocalTime.IsZero() {
		return time.Time{}, fmt.Errorf("MongoDB: %s: the answer to hello has no localTime", doing)
	}
	return answer.LocalTime, nil
}
