package deadletter

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
	"keyfold/source/rabbit/topology"
)

// What a worker buries is what is replayed, byte for byte.
func TestDeadLetterRoundTrip(t *testing.T) {
	body := rapid.OneOf(
		rapid.SliceOf(rapid.Byte()),
		rapid.Custom(func(t *rapid.T) []byte {
			return []byte(rapid.StringMatching(`[ \t\r\n]*(null|"[,:}]*"|\{"a":\[1, 2e0\]\}|\{"user_id":[1-9],"message_id":("m[0-9]"|7)\}|00)[ \t\r\n]*`).Draw(t, "json"))
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		seen := engine.Millis(rapid.Int64Range(1, 1<<45).Draw(t, "first seen"))
		failed := rabbit.Failure{At: engine.Millis(1770733800000), Err: errors.New(rapid.String().Draw(t, "error"))}
		buried := consume.Letter{
			Message: &rabbit.Original{Message: rabbit.Message{Body: body.Draw(t, "body"), ID: "m1", Priority: 5, Headers: amqp.Table{"trace": "abc"}}},
			Reason:  "r", Retries: rapid.IntRange(0, 100).Draw(t, "retries"), Failures: []rabbit.Failure{failed, failed}, FirstSeen: seen,
		}
		m := Queue{Names: rabbit.DefaultNames(), Host: "h"}.message(&buried)
		l := readLetter(&amqp.Delivery{Headers: m.Headers, Body: m.Body, MessageId: m.ID, Priority: m.Priority}, nil)
		if l.Fault != nil || l.Original == nil || string(l.Original) != string(buried.Message.Body) {
			t.Fatalf("%q became %q (%v) in %s", buried.Message.Body, l.Original, l.Fault, m.Body)
		}
		if l.ID != "m1" || l.Reason != "r" || l.Retries != buried.Retries || len(l.Errors) != 2 || l.Host != "h" ||
			l.FirstSeen != seen || !l.LastFailure.Equal(failed.At.Time()) {
			t.Fatalf("%+v", l)
		}
		again := l.Replay(rabbit.DefaultNames(), false)
		if string(again.Body) != string(l.Original) || again.Headers[rabbit.HeaderFirstSeen] != int64(seen) || again.ID != "m1" {
			t.Fatalf("%+v", again)
		}
		buried.Message.ID = "" // the worker's log names what the letter is found by
		m = Queue{Names: rabbit.DefaultNames(), Host: "h"}.message(&buried)
		if l := readLetter(&amqp.Delivery{Headers: m.Headers, Body: m.Body}, nil); buried.Subject != l.Subject {
			t.Fatalf("%s of user %s is found as %s of user %s", buried.Subject.ID, buried.Subject.User, l.ID, l.User)
		}
	})
}

// Whatever is in the queue can be shown.
func TestDeadLetterReadingNeverFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom([]string{"1", "null", `"base64"`, `"AA=="`, "[]", "{}", `{"user_id":{},"event_type":3}`, `{"retry_count":[]}`, "?"})
		body := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Custom(func(t *rapid.T) []byte {
			return fmt.Appendf(nil, `{"original_message":%s,"original_encoding":%s,"failure_info":%s}`,
				value.Draw(t, "original"), value.Draw(t, "encoding"), value.Draw(t, "info"))
		})).Draw(t, "body")
		l := readLetter(&amqp.Delivery{Body: body, Headers: amqp.Table{rabbit.HeaderReason: 5, rabbit.HeaderFirstSeen: "x"}}, nil)
		if l.ID == "" || l.Original == nil && l.Fault == nil || l.Reason != "" || l.FirstSeen != 0 {
			t.Fatalf("%+v", l)
		}
	})
}

func TestReplayWithoutFirstSeen(t *testing.T) {
	failed := time.UnixMilli(1770733800123)
	l := &Letter{Original: []byte("{}"), FirstFailure: failed}
	if m := l.Replay(rabbit.DefaultNames(), false); m.Headers[rabbit.HeaderFirstSeen] != failed.UnixMilli() {
		t.Errorf("first seen %v: an event that failed was seen before", m.Headers)
	}
	if m := l.Replay(rabbit.DefaultNames(), true); m.Headers[rabbit.HeaderFirstSeen] != nil || m.RoutingKey != "user.embedding.unknown" {
		t.Errorf("%+v", m)
	}
}

// A scan leaves a queue as it was, but for what it removed and, in a quorum
// queue, the order; and it reads no more than there was at its start.
func TestDeadLetterScan(t *testing.T) {
	for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, rabbittest.Own(t), kind)
			letter := func(i int) rabbit.Message {
				return rabbit.Message{RoutingKey: s.names.DeadLetters, ID: fmt.Sprint(i), Body: []byte("{}")}
			}
			var want []string
			all := make([]rabbit.Message, 300)
			for i := range all {
				all[i] = letter(i)
				want = append(want, fmt.Sprint(i))
			}
			s.publish(all...)
			same := func(got, want []string) bool {
				if kind == topology.Quorum {
					slices.Sort(got)
					want = slices.Sorted(slices.Values(want))
				}
				return slices.Equal(got, want)
			}
			all300 := func() bool { return s.depth(s.names.DeadLetters) == 300 }
			must.Hold(t, "letters", all300)
			for range 3 {
				if got := s.scan(func(*Scan, *Letter) {}); !same(got, want) {
					t.Fatalf("read %q", got)
				}
				if kind == topology.Quorum {
					must.Hold(t, "letters are back", all300)
				} else if !all300() {
					t.Fatal("not all letters are back when Close returns")
				}
			}
			removed := func(sc *Scan, l *Letter) {
				if l.ID == "0" {
					s.publish(letter(300))
				}
				if l.ID == "7" || l.ID == "9" {
					must.OK(t, sc.Remove(l))
				}
			}
			if got := s.scan(removed); !same(got, want) {
				t.Fatalf("read %q", got)
			}
			must.Hold(t, "what is left is back", func() bool { return s.depth(s.names.DeadLetters) == 299 })
			want = slices.DeleteFunc(append(want, "300"), func(id string) bool { return id == "7" || id == "9" })
			if got := s.scan(func(*Scan, *Letter) {}); !same(got, want) {
				t.Fatalf("then %q", got)
			}
		})
	}
}

// A letter with the start of its original says how large that was, and is not replayed.
func TestLetterOfACutBody(t *testing.T) {
	sum := sha256.Sum256([]byte("whole"))
	cut := consume.Letter{Message: &rabbit.Original{
		Message: rabbit.Message{Body: []byte("who"), ID: "large"}, Whole: &rabbit.WholeBody{Length: 5, SHA256: sum},
	}, Reason: engine.ReasonBodyTooLarge}
	m := Queue{Names: rabbit.DefaultNames()}.message(&cut)
	l := readLetter(&amqp.Delivery{Headers: m.Headers, Body: m.Body, MessageId: m.ID}, nil)
	if l.Original != nil || l.Reason != engine.ReasonBodyTooLarge || l.ID != "large" || l.Fault == nil ||
		!strings.Contains(l.Fault.Error(), "had 5 bytes") || !strings.Contains(l.Fault.Error(), hex.EncodeToString(sum[:])) {
		t.Errorf("%+v", l)
	}
}

// scan reads all letters and returns their ids.
func (s *site) scan(each func(*Scan, *Letter)) (ids []string) {
	s.t.Helper()
	scan, err := Open(s.t.Context(), s.dsn, s.names)
	must.OK(s.t, err)
	for l, err := range scan.Letters(s.t.Context()) {
		must.OK(s.t, err)
		ids = append(ids, l.ID)
		each(scan, l)
	}
	must.OK(s.t, scan.Close())
	return ids
}

// A removal the broker never heard of is no success.
func TestDeadLetterScanLost(t *testing.T) {
	s := shared(t)
	s.publish(rabbit.Message{RoutingKey: s.names.DeadLetters, ID: "a", Body: []byte("{}")})
	scan, err := Open(t.Context(), s.dsn, s.names)
	must.OK(t, err)
	for l, err := range scan.Letters(t.Context()) {
		must.OK(t, err)
		if err := scan.Remove(l, l); err != nil { // the second is a fault the broker answers by closing the channel
			t.Fatal(err)
		}
	}
	must.Hold(t, "the channel is lost", scan.channel.IsClosed)
	if err := scan.Close(); err == nil {
		t.Error("a removal that may be lost was reported as done")
	}
}

func TestDeadLetterScanWithoutQueue(t *testing.T) {
	s := shared(t)
	s.broker.DeleteQueue(t, s.vhost, s.names.DeadLetters)
	if _, err := Open(t.Context(), s.dsn, s.names); engine.KindOf(err) != engine.Configuration {
		t.Errorf("%v", err)
	}
}
