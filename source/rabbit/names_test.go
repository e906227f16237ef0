package rabbit

import (
	"strings"
	"testing"
	"time"
)

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

// Promise(rabbitmq/prefetch-65536)
func TestTagsFitTheProtocol(t *testing.T) {
	i := Identity{Role: "worker", Host: strings.Repeat("h", 300), PID: 1, Version: "v1"}
	if tag := i.Tag(7, 3, 1); len(tag) != MaxShortString || !strings.HasSuffix(tag, ":1 v1 7.3.1") {
		t.Error(tag)
	}
}

func TestConnectionNames(t *testing.T) {
	for version, want := range map[string]string{"v1": "keyfold relay publisher vm:7 v1", "": "keyfold relay publisher vm:7"} {
		i := Identity{Role: "relay", Host: "vm", PID: 7, Version: version}
		if got := i.Connection("publisher"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
