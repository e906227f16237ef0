package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// The short form of `bench outage`: the store is away while events go on coming.
// The worker holds its prefetch and no more, its memory stays as it is, the rest
// waits at the broker, nothing is given up, and all is folded in the end.
//
// Promise(away/memory): During an outage under load events held stay within the prefetch, memory stays
// flat, and nothing is dead-lettered.
// Figure: 10 min away at 200 events/s: 78 MiB resident before, 61 after; 0 dead letters, 0 of 144,000
// missing, backlog gone after 65 s (`go run ./bench outage`)
func TestOutageLeavesMemoryFlat(t *testing.T) {
	t.Parallel()
	const prefetch = 100
	broker := rabbittest.Shared(t)
	server := mongotest.StartProcess(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: server.URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	p := s.program(t, quick, fmt.Sprintf("--prefetch=%d", prefetch))
	bodies := sample.Events(sample.DefaultConfig(120))
	batch := len(bodies) / 20
	s.publish(t, bodies[:4*batch]...)
	s.settled(t, s.expect(t, bodies[:4*batch]))
	server.Kill()
	s.publish(t, bodies[4*batch:8*batch]...)
	p.opened()
	before := p.metric("process_resident_memory_bytes")
	for n := 8; n < 20; n++ {
		s.publish(t, bodies[n*batch:(n+1)*batch]...)
		time.Sleep(150 * time.Millisecond) // an outage takes time
	}
	s.publish(t, bodies[20*batch:]...)
	after := p.metric("process_resident_memory_bytes")
	t.Logf("resident: %d MiB, then %d MiB", before>>20, after>>20)
	if before <= 0 || after > before+before/10 {
		t.Errorf("memory went from %d to %d bytes while the store was away", before, after)
	}
	if unacked := p.metric("keyfold_rabbitmq_unacked"); unacked > prefetch {
		t.Errorf("%d events are held, the prefetch is %d", unacked, prefetch)
	}
	if waiting := s.depth(t, rabbit.DefaultNames().Queue); waiting < 16*batch-prefetch {
		t.Errorf("%d messages wait at the broker, want %d", waiting, 16*batch-prefetch)
	}
	server.Restart(t)
	s.settled(t, s.expect(t, bodies))
	if dead := s.depth(t, rabbit.DefaultNames().DeadLetters); dead != 0 {
		t.Errorf("%d dead letters by the store's absence", dead)
	}
	p.ready()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, p.log)
	}
	s.emptied(t)
}

// A batch whose profile the store will never take: its events are tried one by
// one, the one that is to blame is dead-lettered, and the others are folded.
//
// Promise(event/rejected-profile): Of a batch with a profile that the store rejects, only the rejected
// events are dead-lettered, after the other users of its flush are written.
// Figure: 20 writes for one of 500
// Promise(event/batch-mates)
func TestRejectedDocumentSparesItsBatchMates(t *testing.T) {
	i := newImpaired(t)
	s := i.repaired(t)
	// A validator of the shop's own that does not like this user's purchases.
	match, err := bson.Marshal(bson.D{{Key: "user_id", Value: int32(7)}, {Key: "last_event_type", Value: "product_purchase"}})
	must.OK(t, err)
	if _, err := i.store.Inject(mongotest.Fault{WriteError: 121, Namespace: "keyfold.user_embeddings", Match: match}); err != nil {
		t.Fatal(err)
	}
	d := s.work(t, "--batch-window=1").ready()
	now := time.Now().Add(-time.Hour)
	mates := [][]byte{
		event(7, profile.ProductView, 1, now, "view"), event(7, profile.ProductClick, 2, now.Add(time.Second), "click"),
		event(8, profile.ProductPurchase, 3, now, "another user's purchase"),
	}
	s.publish(t, append(mates, event(7, profile.ProductPurchase, 4, now.Add(2*time.Second), "purchase"))...)
	s.settled(t, s.expect(t, mates))
	if reasons := s.reasons(t, 1); reasons["purchase"] != "document_rejected" {
		t.Errorf("%v", reasons)
	}
	if n := d.metric("keyfold_retries_total"); n != 0 {
		t.Errorf("%d retries of what no retry can cure", n)
	}
	if !strings.Contains(d.log.String(), `"document_rejected"`) {
		t.Errorf("the log does not say why:\n%s", d.log)
	}
}
