package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/engine"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

// bySlot waits until so many events came in the partitions' queues, and takes them; each
// has to be in the queue of its user's slot.
func (s *stack) bySlot(t *testing.T, partitions, want int) {
	t.Helper()
	names := rabbit.DefaultNames()
	ch, hangUp := s.channel(t)
	defer hangUp()
	left := want
	type delivered struct {
		partition int
		body      []byte
		exchange  string
	}
	all := make(chan delivered, want)
	for i := range partitions {
		deliveries, err := ch.Consume(names.PartitionQueue(i), "", true, false, false, false, nil)
		must.OK(t, err)
		go func() {
			for d := range deliveries {
				all <- delivered{i, d.Body, d.Exchange}
			}
		}()
	}
	for ; left > 0; left-- {
		select {
		case d := <-all:
			e, err := profile.ParseEvent(d.body, time.Now())
			if err != nil || engine.SlotOf(e.UserID)%partitions != d.partition || d.exchange != names.Slots {
				t.Errorf("user %d came in partition %d through exchange %q (%v)", e.UserID, d.partition, d.exchange, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%d events of %d are missing", left, want)
		}
	}
}

// Relay, backfill and replay publish by slot where there are partitions.
func TestPublishersPublishBySlot(t *testing.T) {
	const n = 30
	s := newShop(t, outbox.SQLite)
	s.must(t, "setup", "--partitions=4")
	s.more = []string{"--partitions=4"}
	bodies := sampleOf(t, n)
	api := s.service(t, "ingest", "--http-addr=127.0.0.1:0", "--relay").ready()
	api.accepted(bodies...)
	s.bySlot(t, 4, n)
	s.allSent(t)
	api.stop()

	s.exec(t, "UPDATE user_interactions SET processed_to_queue = 0, sent_at = NULL WHERE id <= 10")
	if out := s.must(t, "backfill"); !strings.Contains(out, "10 rows published") {
		t.Errorf("backfill prints %q", out)
	}
	s.bySlot(t, 4, 10)

	s.bury(t, given(bodies[:5])...)
	s.must(t, "dlq", "replay")
	s.bySlot(t, 4, 5)
	// What has no user goes to the queue that `keyfold partition` reads.
	s.bury(t, buried{body: []byte("not JSON"), reason: "malformed", at: time.Now(), errors: []string{"not JSON"}})
	s.must(t, "dlq", "replay", "--error=not JSON")
	if depth := s.depth(t, rabbit.DefaultNames().CommonQueue()); depth != 1 {
		t.Errorf("%d in the common queue", depth)
	}
}

// `setup` names the queues that it retires and the commands that delete them, and `config
// check --connect` says where the broker is set up otherwise.
//
// Promise(partitions/retired)
func TestSetupOfPartitions(t *testing.T) {
	command := brokerOnly(t)
	if out := command("setup"); strings.Contains(out, "partition") {
		t.Errorf("without partitions setup prints\n%s", out)
	}
	out := command("setup", "--partitions", "2")
	for _, want := range []string{
		"exchange user_events, queues user_embedding_updates.common and user_embedding_updates_failed",
		"exchange user_event_slots, 2 partitions: queues user_embedding_updates.00 to user_embedding_updates.01",
		"retry queues user_embedding_updates.slots.retry.5000,", "6 queues of another number of partitions", "docs/UPGRADE.md",
		"  rabbitmqctl list_queues -p test", "  rabbitmqctl delete_queue -p test", " user_embedding_updates.retry.60000\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	var done setUp
	must.OK(t, json.NewDecoder(strings.NewReader(command("setup", "--partitions=1", "-o", "json"))).Decode(&done))
	if q := done.RabbitMQ; len(q.Partitions) != 1 || len(q.Retired) != 7 || len(q.Commands) != 8 || q.Retired[6].Name != "user_embedding_updates.01" {
		t.Errorf("%+v", q)
	}
	if out := command("config", "check", "--connect"); !strings.Contains(out, "RABBITMQ_PARTITIONS is 0, and the broker is set up with 1 partition: set it to 1") {
		t.Errorf("config check --connect prints\n%s", out)
	}
	if out := command("config", "check", "--connect", "--partitions=9"); !strings.Contains(out, "✓ RabbitMQ") {
		t.Errorf("with partitions, config check --connect prints\n%s", out)
	}
	if out := command("setup"); !strings.Contains(out, "1 partition: queues user_embedding_updates.00 to") {
		t.Errorf("without a number setup does not keep the partitions:\n%s", out)
	}
	if out := command("setup", "--partitions=3"); !strings.Contains(out, "64 slots over 3 partitions: 1 of them have 22 slots of users, the others 21") {
		t.Errorf("with 3 partitions setup prints\n%s", out)
	}
	command("setup", "--partitions=0")
	if out := command("config", "check", "--connect", "--partitions=9"); !strings.Contains(out, "RABBITMQ_PARTITIONS is 9, and the broker is set up for one queue: run `keyfold setup --partitions 9`") {
		t.Errorf("set back to one queue, config check --connect prints\n%s", out)
	}
}

func TestSetupWithoutPriorities(t *testing.T) {
	command := brokerOnly(t)
	for _, step := range []struct {
		args []string
		says string
	}{
		{[]string{"setup", "--no-priorities"}, "RabbitMQ: exchange"},
		{[]string{"setup"}, "set RABBITMQ_QUEUE_TYPE and RABBITMQ_PRIORITIES to what it is"},
		{[]string{"setup", "--priorities=false"}, "RabbitMQ: exchange"},
	} {
		if out := command(step.args...); !strings.Contains(out, step.says) {
			t.Errorf("%v: %q is missing in\n%s", step.args, step.says, out)
		}
	}
}

// brokerOnly returns commands at a virtual host of their own. The other servers are away.
func brokerOnly(t *testing.T) func(args ...string) (printed string) {
	t.Parallel()
	broker := rabbittest.Shared(t)
	dsn := broker.DSN(broker.VHost(t))
	return func(args ...string) string {
		t.Helper()
		_, out, errs := keyfold(t.Context(), "", append(args, "--rabbitmq-dsn", dsn, "--mongodb-uri", "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50", "--embedder", "hash")...)
		return out + errs
	}
}
