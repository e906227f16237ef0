package rabbit

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestExpiration(t *testing.T) {
	for expiration, want := range map[time.Duration]string{
		0: "", -time.Second: "", time.Nanosecond: "1", time.Millisecond: "1", 1500 * time.Microsecond: "2",
		MaxExpiration: "4294967295", MaxExpiration + 1: "", MaxExpiration + time.Millisecond: "",
	} {
		m := Message{Expiration: expiration}
		p := m.publishing(128 << 10)
		if p.Expiration != want {
			t.Errorf("%v: %q, want %q", expiration, p.Expiration, want)
		}
		// Neither a retry nor a dead letter expires with its original.
		if o := OriginalOf(&amqp.Delivery{Expiration: p.Expiration}); o.Expiration != 0 {
			t.Errorf("a copy expires within %v", o.Expiration)
		}
	}
}
