package rabbit

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine/profile"
)

func TestStreamNames(t *testing.T) {
	n := DefaultNames()
	s := Stream{Generation: 2, Partition: 5}
	if got := n.StreamQueue(s); got != "user_event_streams.2-5" {
		t.Errorf("the stream is %s", got)
	}
	if got, ok := n.StreamOf(n.StreamQueue(s)); !ok || got != s {
		t.Errorf("its name is read as %+v, %v", got, ok)
	}
	for _, other := range []string{
		"", "user_events", "user_event_streams", "user_event_streams.", "user_event_streams.1", "user_event_streams.0-1", "user_event_streams.1-64",
		"user_event_streams.1--1", "user_event_streams.01-1", "user_event_streams.1-1x", "user_event_streams.256-1", "others_streams.1-1",
	} {
		if got, ok := n.StreamOf(other); ok {
			t.Errorf("%q is read as %+v", other, got)
		}
	}
	if id := s.ID(0); id != 2<<8|5<<1 {
		t.Errorf("id %x", id)
	}
	if id := s.ID(3); id != 3<<16|2<<8|5<<1 {
		t.Errorf("id %x of epoch 3", id)
	}
}

func TestPlaceOfACopy(t *testing.T) {
	n := DefaultNames()
	s := Stream{Generation: 1, Partition: 3}
	for text, want := range map[any]profile.Place{
		n.FormatPlace(s, 0, 1<<63):       {Stream: s.ID(0), Offset: 1 << 63},
		n.FormatPlace(s, 0, 0):           {Stream: s.ID(0)},
		n.FormatPlace(s, 65535, 7):       {Stream: s.ID(65535), Offset: 7},
		"user_event_streams.1-3@9":       {Stream: s.ID(0), Offset: 9},
		"user_event_streams.1-3+2@9":     {Stream: s.ID(2), Offset: 9},
		"user_event_streams.1-3+@9":      {},
		"user_event_streams.1-3+65536@9": {},
		"user_event_streams.1-3":         {},
		"user_event_streams.1-3@":        {},
		"user_event_streams.1-3@-1":      {},
		"elsewhere.1-3@7":                {},
		int64(7):                         {},
	} {
		if got := n.Place(&Original{Message: Message{Headers: amqp.Table{HeaderStream: text}}}); got != want {
			t.Errorf("%v is %+v, want %+v", text, got, want)
		}
	}
	if got := n.Place(&Original{}); got != (profile.Place{}) {
		t.Errorf("a message without headers is of %+v", got)
	}
}
