package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// padded is an event of exactly so many bytes.
func padded(size int, id string) []byte {
	body := event(1, profile.ProductView, 1, time.Now().Add(-time.Hour), id)
	return bytes.Replace(body, []byte(`"mobile"`), []byte(`"`+strings.Repeat("x", size-len(body)+len("mobile"))+`"`), 1)
}

// A body of 64 KiB is folded, one byte more is refused.
//
// Promise(event/large-body): A body of 65,536 bytes is folded and a larger one dead-lettered; of one
// over 256 KiB the letter has the start, the length and the SHA-256.
func TestLimit_Body64KiB(t *testing.T) {
	s := newStack(t)
	s.work(t, quick).ready()
	fits, over := padded(profile.MaxBodyBytes, "fits"), padded(profile.MaxBodyBytes+1, "over")
	if len(fits) != 64<<10 || len(over) != 64<<10+1 {
		t.Fatal(len(fits), len(over))
	}
	s.publish(t, over, fits)
	s.settled(t, s.expect(t, [][]byte{fits}))
	if reasons := s.reasons(t, 1); reasons["malformed 0"] != engine.ReasonBodyTooLarge {
		t.Errorf("%v", reasons)
	}
}

// A backlog of large bodies at a small memory limit: what is unacknowledged fits
// the quarter of the limit that is for events, the heap fits the limit, and all
// is folded.
//
// Promise(bounds/large-bodies)
func TestLimit_LargeBodiesAtASmallMemoryLimit(t *testing.T) {
	const (
		events = 360
		size   = 60 << 10
		limit  = 64 << 20
	)
	s := newStack(t)
	bodies := make([][]byte, events)
	for i := range bodies {
		user := fmt.Sprintf(`"user_id":%d,`, 1+i%300)
		bodies[i] = bytes.Replace(padded(size, fmt.Sprint("large ", i)), []byte(`"user_id":1,`), []byte(user), 1)
	}
	s.publish(t, bodies...)
	d, kill := s.process(t, quick, "--memory-limit=64M")
	defer kill()
	eventually(t, "all are folded", func() error {
		if n := d.metric("keyfold_rabbitmq_unacked"); n*size > limit/4 {
			t.Fatalf("%d events of %d bytes are unacknowledged", n, size)
		}
		if n := d.metric("go_memstats_heap_inuse_bytes"); n > limit {
			t.Fatalf("%d bytes of heap are in use", n)
		}
		if n := d.metric(`keyfold_events_total{outcome="folded"}`); n < events {
			return fmt.Errorf("%d of %d events are folded", n, events)
		}
		return nil
	})
	s.settled(t, s.expect(t, bodies))
}

// Bodies made to cost much are refused like any other; their neighbours are
// folded, and the worker stays ready.
//
// Promise(event/json-bombs): JSON made to cost much (nesting, long numbers, thousands of keys) is
// dead-lettered before anything is built of it.
func TestLimit_JSONBombs(t *testing.T) {
	s := newStack(t)
	d := s.work(t, quick).ready()
	now := time.Now().Add(-time.Hour)
	with := func(metadata string) []byte {
		return bytes.Replace(event(1, profile.ProductView, 1, now, "bomb"), []byte(`{"device":"mobile"}`), []byte(metadata), 1)
	}
	keys := func(n int, more string) string {
		var b strings.Builder
		b.WriteString("{")
		for i := range n {
			fmt.Fprintf(&b, `"%d":0,`, i)
		}
		return b.String() + more + "}"
	}
	bombs := []struct {
		name, reason string
		body         []byte
	}{
		{"brackets", engine.ReasonMalformedJSON, bytes.Repeat([]byte("["), profile.MaxBodyBytes)},
		{"braces", engine.ReasonTooDeep, bytes.Repeat([]byte(`{"a":`), profile.MaxBodyBytes/5)},
		{"deep metadata", engine.ReasonTooDeep, with(strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000))},
		{"deep arrays", engine.ReasonTooDeep, with(`{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}")},
		{"number of 60,000 digits for a user", engine.ReasonIDOutOfRange, bytes.Replace(with("{}"), []byte(`"user_id":1`), []byte(`"user_id":1`+strings.Repeat("0", 60_000)), 1)},
		{"exponent for a user", engine.ReasonWrongType, bytes.Replace(with("{}"), []byte(`"user_id":1`), []byte(`"user_id":1e999999999`), 1)},
		{"a key twice among thousands", engine.ReasonDuplicateKey, with(keys(6000, `"17":0`))},
		{"escapes", engine.ReasonLoneSurrogate, with(`{"a":"` + strings.Repeat(`\ud83d`, 10_000) + `"}`)},
		{"unclosed string", engine.ReasonMalformedJSON, []byte(`{"a":"` + strings.Repeat("a", 60_000))},
	}
	var bodies [][]byte
	for _, b := range bombs {
		bodies = append(bodies, b.body)
	}
	harmless := [][]byte{
		event(1, profile.ProductView, 1, now, "good"),
		bytes.Replace(with(keys(6000, `"last":1e999999999`)), []byte(`"bomb"`), []byte(`"many keys and a huge number nobody reads"`), 1),
	}
	s.publish(t, append(bodies, harmless...)...)
	s.settled(t, s.expect(t, harmless))
	reasons := s.reasons(t, len(bombs))
	for i, b := range bombs {
		if got := reasons[fmt.Sprint("malformed ", i)]; got != b.reason {
			t.Errorf("%s: dead-lettered as %q, want %q", b.name, got, b.reason)
		}
	}
	d.ready()
}

// Ids up to the largest int32, times up to five minutes ahead; what is beyond is
// refused by its reason.
//
// Promise(event/ids-and-times): Ids beyond int32 and events of the future are dead-lettered; the
// largest id and a clock four minutes ahead are folded.
func TestLimit_IdsAndTimes(t *testing.T) {
	s := newStack(t)
	s.work(t, quick).ready()
	now := time.Now()
	edge := func(user, product string, at time.Time, id string) []byte {
		return fmt.Appendf(nil, `{"user_id":%s,"event_type":"product_view","product_id":%s,"occurred_at":%q,"message_id":%q}`,
			user, product, at.UTC().Format("2006-01-02T15:04:05.000-07:00"), id)
	}
	largest := fmt.Sprint(math.MaxInt32)
	then := now.Add(-time.Hour)
	bad := []struct {
		name, reason string
		body         []byte
	}{
		{"user past int32", engine.ReasonIDOutOfRange, edge("2147483648", "1", then, "a")},
		{"user past int64", engine.ReasonIDOutOfRange, edge("9223372036854775808", "1", then, "b")},
		{"user 0", engine.ReasonIDOutOfRange, edge("0", "1", then, "c")},
		{"user below 0", engine.ReasonIDOutOfRange, edge("-1", "1", then, "d")},
		{"user at the smallest int32", engine.ReasonIDOutOfRange, edge("-2147483648", "1", then, "e")},
		{"product past int32", engine.ReasonIDOutOfRange, edge("1", "2147483648", then, "f")},
		{"product 0", engine.ReasonIDOutOfRange, edge("1", "0", then, "g")},
		{"an hour ahead", engine.ReasonFutureEvent, edge("1", "1", now.Add(time.Hour), "h")},
		{"ten years ahead", engine.ReasonFutureEvent, edge("1", "1", now.AddDate(10, 0, 0), "i")},
	}
	var bodies [][]byte
	for _, b := range bad {
		bodies = append(bodies, b.body)
	}
	good := [][]byte{
		edge(largest, "1", then, "largest user"),
		edge("1", largest, then, "largest product, which is unknown"),
		edge("2", "1", now.Add(4*time.Minute), "a clock that is ahead"),
	}
	s.publish(t, append(bodies, good...)...)
	s.settled(t, s.expect(t, good))
	if p := allProfiles(t, s.open(t))[math.MaxInt32]; p == nil || p.EventCount != 1 {
		t.Errorf("the largest user has %+v", p)
	}
	reasons := s.reasons(t, len(bad))
	for i, b := range bad {
		if got := reasons[fmt.Sprint("malformed ", i)]; got != b.reason {
			t.Errorf("%s: dead-lettered as %q, want %q", b.name, got, b.reason)
		}
	}
}
