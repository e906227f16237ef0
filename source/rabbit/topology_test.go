package rabbit

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	rabbittest "keyfold/bench/testserver/rabbitmq"
	"keyfold/engine"
)

var tenMillis = []time.Duration{10 * time.Millisecond, 5 * time.Second}

func TestSetupIsIdempotent(t *testing.T) {
	for _, queueType := range []QueueType{Classic, Quorum} {
		b := rabbittest.Shared(t)
		dsn := b.DSN(b.VHost(t))
		topology := Topology{Names: DefaultNames(), QueueType: queueType, RetryDelays: tenMillis}
		for range 3 {
			if err := Setup(t.Context(), dsn, topology); err != nil {
				t.Fatalf("%s: %v", queueType, err)
			}
		}
	}
}

// A message goes through a delay queue back to the worker's queue: quorum,
// message TTL and at-least-once dead-lettering together, on this broker.
func TestRetryQueueGivesBack(t *testing.T) {
	for _, queueType := range []QueueType{Classic, Quorum} {
		b := rabbittest.Shared(t)
		vhost := b.VHost(t)
		s := &site{t: t, broker: b, vhost: vhost, dsn: b.DSN(vhost), names: DefaultNames()}
		if err := Setup(t.Context(), s.dsn, Topology{Names: s.names, QueueType: queueType, RetryDelays: tenMillis}); err != nil {
			t.Fatal(err)
		}
		m := s.messages(1)[0]
		m.Exchange, m.RoutingKey = "", s.names.RetryQueue(tenMillis[0])
		s.publish(m)
		ch := s.channel()
		var back amqp.Delivery
		eventually(t, "message back from the delay queue", func() bool {
			d, ok, err := ch.Get(s.names.Queue, true)
			if err != nil {
				t.Fatal(err)
			}
			back = d
			return ok
		})
		if string(back.Body) != string(m.Body) || back.MessageId != m.ID || back.Headers["x-death"] == nil {
			t.Errorf("came back as %q, id %q, headers %v", back.Body, back.MessageId, back.Headers)
		}
	}
}

func TestSetupMismatch(t *testing.T) {
	b := rabbittest.Shared(t)
	dsn := b.DSN(b.VHost(t))
	names := DefaultNames()
	if err := Setup(t.Context(), dsn, Topology{Names: names, QueueType: Classic}); err != nil {
		t.Fatal(err)
	}
	err := Setup(t.Context(), dsn, Topology{Names: names, QueueType: Quorum})
	if engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != ReasonQueueMismatch {
		t.Fatalf("%v: %v", engine.KindOf(err), err)
	}
	for _, part := range []string{"queue user_embedding_updates", "inequivalent arg", "RABBITMQ_QUEUE_TYPE", "delete_queue"} {
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
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, tc := range []struct {
		name, dsn, reason, cure string
	}{
		{"wrong password", at("guest:wr0ng", vhost), ReasonAccessRefused, "wrong user or password"},
		{"no vhost", at("guest:guest", "nowhere"), ReasonVHostRefused, "virtual host"},
		{"no access to vhost", at("stranger:s3cret", "%2F"), ReasonVHostRefused, "set_permissions"},
		{"no permission", at("stranger:s3cret", vhost), ReasonAccessRefused, "set_permissions"},
		{"unreadable", "amqp://guest:wr0ng#x@host:5672/", ReasonBadDSN, "percent-encoded"},
		{"nobody there", "amqp://guest:wr0ng@127.0.0.1:1/", "", ""},
		{"no answer", "amqp://guest:wr0ng@" + silent.Addr().String() + "/?connection_timeout=200", "", ""},
	} {
		err := Setup(within(t, 30*time.Second), tc.dsn, Topology{Names: DefaultNames(), QueueType: Classic})
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
	err := Setup(within(t, 200*time.Millisecond), rabbittest.DSN(p.Address(), "/"), Topology{Names: DefaultNames(), QueueType: Classic})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestTopologyValidate(t *testing.T) {
	err := Topology{QueueType: "stream", RetryDelays: []time.Duration{0, 25 * time.Hour}}.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three faults: %v", err)
	}
}

func TestRetryDelays(t *testing.T) {
	var all []string
	for _, d := range RetryDelays(5*time.Second, 7) {
		all = append(all, DefaultNames().RetryQueue(d))
	}
	want := "user_embedding_updates.retry.5000 user_embedding_updates.retry.10000 user_embedding_updates.retry.20000 " +
		"user_embedding_updates.retry.40000 user_embedding_updates.retry.60000"
	if got := strings.Join(all, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRedact(t *testing.T) {
	for dsn, want := range map[string]string{
		"amqp://user:123/secret@host/": "(unreadable DSN)",
		"amqp://user:12@34@host/":      "(unreadable DSN)",
		"amqp://u:p@h:1/v":             "amqp://u:***@h:1/v",
		"amqps://u:p%40x@h":            "amqps://u:***@h:5671/",
		"amqp://u:p@h:1/a%2Fb":         "amqp://u:***@h:1/a%2Fb",
		"amqp://u:secret#x@h/":         "(unreadable DSN)",
		"secret":                       "(unreadable DSN)",
	} {
		if got := Redact(dsn); got != want {
			t.Errorf("%s: %s, want %s", dsn, got, want)
		}
	}
}

func TestTagsFitTheProtocol(t *testing.T) {
	i := Identity{Role: "worker", Host: strings.Repeat("h", 300), PID: 1, Version: "v1"}
	if tag := i.tag(7, 3, 1); len(tag) != maxShortString || !strings.HasSuffix(tag, ":1 v1 7.3.1") {
		t.Error(tag)
	}
}

func TestConnectionNames(t *testing.T) {
	for version, want := range map[string]string{"v1": "keyfold relay publisher vm:7 v1", "": "keyfold relay publisher vm:7"} {
		i := Identity{Role: "relay", Host: "vm", PID: 7, Version: version}
		if got := i.connection("publisher"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
