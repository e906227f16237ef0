package rabbit

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	rabbittest "keyfold/bench/testserver/rabbitmq"
)

// Headers that are larger than a frame end the connection. They are left out, those of
// keyfold's own last.
func TestHeadersThatFitNoFrame(t *testing.T) {
	long := strings.Repeat("x", 300)
	own := amqp.Table{HeaderFirstSeen: int64(5), HeaderAttempts: int64(1), HeaderExchange: "shop"}
	for name, tc := range map[string]struct {
		room          int
		foreign, gets amqp.Table
	}{
		"all":            {1000, amqp.Table{"trace": long}, amqp.Table{"trace": long, HeaderFirstSeen: int64(5), HeaderAttempts: int64(1), HeaderExchange: "shop"}},
		"own":            {300, amqp.Table{"trace": long}, own},
		"not the errors": {300, amqp.Table{"trace": "t", HeaderErrors: long}, own},
		"what is needed": {50, nil, amqp.Table{HeaderFirstSeen: int64(5)}},
		"none":           {20, nil, amqp.Table{}},
	} {
		headers := maps.Clone(own)
		maps.Copy(headers, tc.foreign)
		if got := fitting(headers, tc.room); fmt.Sprint(got) != fmt.Sprint(tc.gets) {
			t.Errorf("%s: %v, want %v", name, got, tc.gets)
		}
		if len(headers) != len(own)+len(tc.foreign) {
			t.Errorf("%s: the message's own headers became %v", name, headers)
		}
	}
	s := shared(t)
	m := s.messages(2)
	m[0].Headers = amqp.Table{"trace": strings.Repeat("x", 128<<10), HeaderFirstSeen: int64(5)}
	s.publish(m...)
	d, ok, err := s.channel().Get(s.names.Queue, true)
	if err != nil || !ok || d.MessageId != m[0].ID || len(d.Headers) != 1 || d.Headers[HeaderFirstSeen] != int64(5) {
		t.Errorf("%t %v %s %d", ok, err, d.MessageId, len(d.Headers))
	}
}

// The size of headers is never told as less than it is in a frame.
func TestTableSize(t *testing.T) {
	field := rapid.OneOf(rapid.Just[any](int64(1)), rapid.Just[any](true), rapid.Just[any](nil), rapid.Just[any](amqp.Decimal{}),
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) any { return b }),
		rapid.Map(rapid.SliceOf(rapid.Float64()), func(all []float64) any {
			items := make([]any, len(all))
			for i, f := range all {
				items[i] = amqp.Table{"f": f}
			}
			return items
		}))
	rapid.Check(t, func(t *rapid.T) {
		headers := amqp.Table(rapid.MapOf(rapid.StringN(0, 20, 60), field).Draw(t, "headers"))
		if size, told := wireSize(headers), tableSize(headers); told < size {
			t.Fatalf("%d bytes, told as %d", size, told)
		}
	})
}

// wireSize returns the size of a field's value in a frame, with its type.
func wireSize(value any) (n int) {
	switch v := value.(type) {
	case nil:
		return 1
	case bool:
		return 2
	case int64, float64:
		return 9
	case amqp.Decimal:
		return 6
	case string:
		return 5 + len(v)
	case []byte:
		return 5 + len(v)
	case []any:
		for _, item := range v {
			n += wireSize(item)
		}
	case amqp.Table:
		for name, field := range v {
			n += 1 + len(name) + wireSize(field)
		}
	}
	return n + 5
}

// A message whose headers fill a frame cannot be delivered again by a quorum queue, which
// adds one to them. The consumer names the cure, and goes on once that is done.
func TestAFullFrameThatIsDeliveredAgain(t *testing.T) {
	s := newSite(t, rabbittest.Start(t))
	s.broker.DeleteQueue(t, s.vhost, s.names.Queue)
	if err := Setup(t.Context(), s.dsn, Topology{Names: s.names, QueueType: Quorum}); err != nil {
		t.Fatal(err)
	}
	const fixed = 26 + len("own") + 6 // of a frame with one header and no property
	m := s.messages(2)
	ch := s.channel()
	err := ch.Publish(m[0].Exchange, m[0].RoutingKey, true, false, amqp.Publishing{
		Headers: amqp.Table{"own": strings.Repeat("x", 128<<10-fixed)}, Body: m[0].Body,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.publish(m[1])
	deliveries, err := ch.Consume(s.names.Queue, "reader", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := <-deliveries
	// A consumer that went on would get the frame that is too large, in place of the close's answer.
	if err := errors.Join(ch.Cancel("reader", false), first.Reject(true), ch.Close()); err != nil {
		t.Fatal(err)
	}
	r := s.run(s.config(), settleAtOnce)
	eventually(t, "the cure is named", func() bool {
		err := r.Ready()
		return err != nil && strings.Contains(err.Error(), "set_env(rabbit, frame_max, 262144)")
	})
	s.broker.Control(t, "eval", "application:set_env(rabbit, frame_max, 262144).")
	eventually(t, "both are acknowledged", func() bool { return r.Stats.Acked.Load() == 2 })
	if err := r.end(ample); err != nil {
		t.Error(err)
	}
}

// A connection that was open for long was not ended by a message that fits no frame: the
// process stood still, or the broker went away.
func TestALostConnectionBlamesNoFrame(t *testing.T) {
	fault := &amqp.Error{Code: amqp.FrameError, Reason: "EOF"}
	if err := lost(fault, 30*time.Second); strings.Contains(err.Error(), "frame_max") {
		t.Errorf("after 30 s: %v", err)
	}
	if err := lost(fault, time.Second); !strings.Contains(err.Error(), "frame_max") {
		t.Errorf("at once: %v", err)
	}
}
