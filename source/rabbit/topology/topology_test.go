package topology

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

var tenMillis = []time.Duration{10 * time.Millisecond, 5 * time.Second}

// Promise(rabbitmq/other-arguments)
func TestSetupIsIdempotent(t *testing.T) {
	for _, queueType := range []QueueType{Classic, Quorum} {
		b := rabbittest.Shared(t)
		dsn := b.DSN(b.VHost(t))
		topology := Config{Names: rabbit.DefaultNames(), QueueType: queueType, RetryDelays: tenMillis}
		for range 3 {
			if err := Setup(t.Context(), dsn, topology); err != nil {
				t.Fatalf("%s: %v", queueType, err)
			}
		}
	}
}

// A message goes through a delay queue back to the worker's queue: quorum,
// message TTL and at-least-once dead-lettering together, on this broker.
//
// Promise(rabbitmq/delay-queues)
func TestRetryQueueGivesBack(t *testing.T) {
	for _, queueType := range []QueueType{Classic, Quorum} {
		s := &site{sitetest.New(t, rabbittest.Shared(t))}
		must.OK(t, Setup(t.Context(), s.DSN, Config{Names: s.Names, QueueType: queueType, RetryDelays: tenMillis}))
		m := s.Messages(1)[0]
		m.Exchange, m.RoutingKey = "", s.Names.RetryQueue(tenMillis[0])
		s.Publish(m)
		ch := s.Channel()
		var back amqp.Delivery
		sitetest.Eventually(t, "message back from the delay queue", func() bool {
			d, ok, err := ch.Get(s.Names.Queue, true)
			must.OK(t, err)
			back = d
			return ok
		})
		if string(back.Body) != string(m.Body) || back.MessageId != m.ID || back.Headers["x-death"] == nil {
			t.Errorf("came back as %q, id %q, headers %v", back.Body, back.MessageId, back.Headers)
		}
	}
}

// Promise(rabbitmq/other-arguments): A name that exists with other arguments is said with the cure;
// delay queues are named by their delay.
// Promise(away/queue-deleted)
func TestSetupMismatch(t *testing.T) {
	b := rabbittest.Shared(t)
	dsn := b.DSN(b.VHost(t))
	names := rabbit.DefaultNames()
	must.OK(t, Setup(t.Context(), dsn, Config{Names: names, QueueType: Classic}))
	err := Setup(t.Context(), dsn, Config{Names: names, QueueType: Quorum})
	if engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != rabbit.ReasonQueueMismatch {
		t.Fatalf("%v: %v", engine.KindOf(err), err)
	}
	for _, part := range []string{"queue user_embedding_updates", "inequivalent arg", "topology.Config.QueueType", "delete_queue"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
}

func TestConnectionRefusals(t *testing.T) {
	b := rabbittest.Shared(t)
	vhost := b.VHost(t)
	b.AddUser(t, "stranger", "s3cret")
	b.Permit(t, vhost, "stranger", "^$", ".*", ".*")
	at := func(user, vhost string) string { return "amqp://" + user + "@" + b.Address() + "/" + vhost }
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer silent.Close()
	for _, tc := range []struct {
		name, dsn, reason, cure string
	}{
		{"wrong password", at("guest:wr0ng", vhost), rabbit.ReasonAccessRefused, "check the user and the password"},
		{"no vhost", at("guest:guest", "nowhere"), rabbit.ReasonVHostRefused, "virtual host"},
		{"no access to vhost", at("stranger:s3cret", "%2F"), rabbit.ReasonVHostRefused, "set_permissions"},
		{"no permission", at("stranger:s3cret", vhost), rabbit.ReasonAccessRefused, "set_permissions"},
		{"unreadable", "amqp://guest:wr0ng#x@host:5672/", rabbit.ReasonBadDSN, "percent-encoded"},
		{"no server there", "amqp://guest:wr0ng@127.0.0.1:1/", "", ""},
		{"no answer", "amqp://guest:wr0ng@" + silent.Addr().String() + "/?connection_timeout=200", "", ""},
	} {
		err := Setup(sitetest.Within(t, 30*time.Second), tc.dsn, Config{Names: rabbit.DefaultNames(), QueueType: Classic})
		want := engine.Configuration
		if tc.reason == "" {
			want = engine.Transient
		}
		if err == nil || engine.KindOf(err) != want || want == engine.Configuration && engine.ReasonOf(err) != tc.reason {
			t.Errorf("%s: %v (%v, %s)", tc.name, err, engine.KindOf(err), engine.ReasonOf(err))
			continue
		}
		if !strings.Contains(err.Error(), tc.cure) {
			t.Errorf("%s: no cure in %v", tc.name, err)
		}
		for _, secret := range []string{"wr0ng", "s3cret"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the password is in %v", tc.name, err)
			}
		}
	}
}

func TestSetupEndsWithItsContext(t *testing.T) {
	p := rabbittest.NewProxy(t, rabbittest.Shared(t).Address())
	p.Freeze()
	err := Setup(sitetest.Within(t, 200*time.Millisecond), rabbittest.DSN(p.Address(), "/"), Config{Names: rabbit.DefaultNames(), QueueType: Classic})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestTopologyValidate(t *testing.T) {
	err := Config{QueueType: "stream", RetryDelays: []time.Duration{0, 25 * time.Hour}}.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three faults: %v", err)
	}
}

// The type of a queue is named, so that a virtual host's default is not taken.
//
// Promise(rabbitmq/queue-type): Each queue is declared with its type, whatever the virtual host's
// default.
func TestSetupNamesTheQueueType(t *testing.T) {
	b := rabbittest.Shared(t)
	vhost := fmt.Sprint("quorum by default ", time.Now().UnixNano())
	b.Control(t, "add_vhost", vhost, "--default-queue-type", "quorum")
	t.Cleanup(func() { b.Control(t, "delete_vhost", vhost) })
	b.Permit(t, vhost, "guest", ".*", ".*", ".*")
	topology := Config{Names: rabbit.DefaultNames(), QueueType: Classic, RetryDelays: tenMillis}
	must.OK(t, Setup(t.Context(), b.DSN(vhost), topology))
	for _, line := range strings.Split(strings.TrimSpace(b.Control(t, "list_queues", "-p", vhost, "name", "type", "--no-table-headers")), "\n") {
		name, kind, _ := strings.Cut(line, "\t")
		if want := map[bool]string{true: "quorum", false: "classic"}[strings.Contains(name, ".retry.")]; !strings.Contains(kind, want) {
			t.Errorf("queue %s is of type %s, want %s", name, kind, want)
		}
	}
}
