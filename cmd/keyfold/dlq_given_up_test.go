package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// What a policy has the broker give up is listed with the broker's reason, and
// a replay folds it.
//
// Promise(rabbitmq/delivery-limit)
func TestDlqGivenUpByTheBroker(t *testing.T) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	vhost, names := broker.VHost(t), rabbit.DefaultNames()
	s := &stack{dsn: broker.DSN(vhost), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	const quorum = "--rabbitmq-queue-type=quorum"
	s.setUp(t, quorum)
	broker.SetPolicy(t, vhost, "^"+names.Queue+"$", `{"delivery-limit":1}`)
	bodies := make([][]byte, 3)
	for i := range bodies {
		bodies[i] = event(int32(1+i), profile.ProductView, 1, time.Now().Add(-time.Hour), fmt.Sprint("event ", i))
	}
	s.publish(t, bodies...)
	ch, hangUp := s.channel(t)
	defer hangUp()
	eventually(t, "the broker gives them up", func() error {
		d, ok, err := ch.Get(names.Queue, false)
		if ok && err == nil {
			err = d.Nack(false, true)
		}
		if n := s.depth(t, names.DeadLetters); err == nil && n < len(bodies) {
			err = fmt.Errorf("%d dead letters", n)
		}
		return err
	})
	broker.ClearPolicy(t, vhost)
	if code, out, errs := s.run(t, "", "dlq", "stats", "-o", "json", quorum); code != 0 ||
		!strings.Contains(out, `"by_reason":{"delivery_limit":3}`) || !strings.Contains(out, `"by_type":{"product_view":3}`) {
		t.Errorf("%d %s %s", code, out, errs)
	}
	if code, out, errs := s.run(t, "", "dlq", "replay", quorum); code != 0 || !strings.Contains(out, "replayed 3, skipped 0, failed 0") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	s.work(t, quick, quorum).ready()
	s.settled(t, s.expect(t, bodies))
}

// Letters that the broker does not take are told of, and events go on.
//
// Promise(event/letter-refused)
func TestReadyTellsOfUnstoredLetters(t *testing.T) {
	s := newStack(t)
	d := s.work(t, quick).ready()
	ch, hangUp := s.channel(t)
	defer hangUp()
	if _, err := ch.QueueDelete(rabbit.DefaultNames().DeadLetters, false, false, false); err != nil {
		t.Fatal(err)
	}
	good := event(1, profile.ProductView, 1, time.Now().Add(-time.Hour), "good")
	s.publish(t, []byte("bad"), good)
	eventually(t, "it is told", func() error {
		code, body := d.get("/readyz")
		if n := d.metric("keyfold_dead_letters_unstored"); code != 200 || n != 1 || !strings.Contains(body, "dead letters: 1 events wait") {
			return fmt.Errorf("%d %s, %d unstored", code, body, n)
		}
		return nil
	})
	s.settled(t, s.expect(t, [][]byte{good}))
	if code, _, errs := s.run(t, "", "setup"); code != 0 {
		t.Fatal(errs)
	}
	eventually(t, "it is stored at last", func() error {
		if _, body := d.get("/readyz"); strings.Contains(body, "dead letters") {
			return fmt.Errorf("%s", body)
		}
		return nil
	})
}
