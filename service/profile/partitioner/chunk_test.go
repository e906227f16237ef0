package partitioner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/consume"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// verdicts are those of messages, by their numbers.
type verdicts map[int][]engine.Verdict

type numbered struct {
	all    verdicts
	number int
}

func (n numbered) Settle(v engine.Verdict) { n.all[n.number] = append(n.all[n.number], v) }

// afternoon is soon after the events of body.
var afternoon = time.Date(2026, 2, 10, 15, 0, 0, 0, time.UTC)

// body returns an event of a user, with its number as its id.
func body(user, number int) []byte {
	return fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_view","product_id":7,"occurred_at":"2026-02-10T14:30:00+00:00","message_id":"m%d"}`, user, number)
}

func original(body []byte, headers map[string]any) *rabbit.Original {
	return &rabbit.Original{Message: rabbit.Message{Exchange: "user_events", RoutingKey: "user.embedding.product_view", Headers: headers, Body: body}}
}

// alone returns a stage whose copies go to send.
func alone(send func(context.Context, []rabbit.Message) []error) *Partitioner {
	return &Partitioner{config: Config{Names: rabbit.DefaultNames()}.orDefaults(), log: quiet, send: send}
}

// Whatever the broker answers, each message is acknowledged once, after its copy was
// confirmed, and the last copies of a slot's messages are in the order of the messages.
// No attempt is used and nothing is dead-lettered. A copy that may be a second one says
// since when there may be a first one.
//
// Promise(partitions/common-exchange)
func TestCopiesKeepTheOrderOfTheirSlot(t *testing.T) {
	answers := []error{nil, nil, nil, engine.ErrUnroutable, engine.ErrRefused, engine.ErrUnknown, engine.ErrAway}
	rapid.Check(t, func(t *rapid.T) {
		users := rapid.SliceOfN(rapid.IntRange(1, 6), 1, 40).Draw(t, "users")
		waves := rapid.IntRange(0, 4).Draw(t, "waves with failures")
		last, settled, reached := map[string]int{}, verdicts{}, map[string]bool{}
		at := 0
		stage := alone(func(_ context.Context, messages []rabbit.Message) []error {
			errs := make([]error, len(messages))
			for i, m := range messages {
				_, since := m.Headers[rabbit.HeaderFirstSeen]
				if since != reached[m.ID] {
					t.Fatalf("%s may be stored: %t, its copy says so: %t", m.ID, reached[m.ID], since)
				}
				if waves > 0 {
					errs[i] = rapid.SampledFrom(answers).Draw(t, "answer")
				}
				if errs[i] == nil {
					at++
					last[m.ID] = at
				}
				reached[m.ID] = reached[m.ID] || mayBeStored(errs[i])
			}
			waves--
			return errs
		})
		stage.config.WaitMin, stage.config.WaitMax = time.Nanosecond, time.Nanosecond
		c := stage.chunks()
		for i, user := range users {
			must.OK(t, c.Add(original(body(user, i), nil), consume.Arrival{Attempt: 1, Arrived: time.Now(), Settler: numbered{settled, i}}))
		}
		if err := c.HandOver(t.Context()); err != nil || c.Len() != 0 {
			t.Fatalf("%d left: %v", c.Len(), err)
		}
		newest := map[int]int{}
		for i, user := range users {
			if v := settled[i]; len(v) != 1 || v[0].Outcome != engine.Decided {
				t.Fatalf("message %d: %v", i, v)
			}
			slot, copied := engine.SlotOf(int32(user)), last[fmt.Sprintf("m%d", i)]
			if copied <= newest[slot] {
				t.Fatalf("message %d of slot %d was overtaken", i, slot)
			}
			newest[slot] = copied
		}
	})
}

// A stage that is told to stop while nothing can be published leaves its messages with
// the broker; the waits between the publications grow, and the log has one line.
//
// Promise(partitions/no-route)
func TestNothingIsSettledThatWasNotPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries, lines := 0, &counter{}
		stage := alone(func(_ context.Context, messages []rabbit.Message) []error {
			tries++
			return slices.Repeat([]error{engine.ErrUnroutable}, len(messages))
		})
		stage.log = slog.New(slog.NewTextHandler(lines, nil))
		settled := verdicts{}
		c := stage.chunks()
		must.OK(t, c.Add(original(body(1, 0), nil), consume.Arrival{Attempt: 1, Arrived: afternoon, Settler: numbered{settled, 0}}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := c.HandOver(ctx); err != nil {
			t.Error(err)
		}
		if v := settled[0]; len(v) != 1 || v[0].Outcome != engine.Unsettled {
			t.Errorf("settled: %v", v)
		}
		if fault := stage.outage.fault(); engine.ReasonOf(fault) != ReasonNoPartition {
			t.Errorf("the fault is %v", fault)
		}
		// Waits of up to 15 s.
		if tries < 240 || tries > 500 || lines.n != 1 || stage.Stats.Unroutable.Load() != int64(tries) {
			t.Errorf("%d tries in an hour, %d lines, %d counted", tries, lines.n, stage.Stats.Unroutable.Load())
		}
	})
}

// A stage that is frozen between a message's arrival and a publication leaves the message
// to the broker once its lease is over, wherever the freeze begins. Copies that may be
// second ones say that nothing was folded before the arrival.
//
// Promise(redelivery/partition-frozen): A `keyfold partition` that was frozen over its lease of 60 s
// publishes nothing of what came before; no bound is later than the arrival.
func TestNothingIsPublishedBehindItsLease(t *testing.T) {
	for _, frozenBefore := range []int{1, 2, 3, 4} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(afternoon))
			tries := 0
			stage := alone(func(_ context.Context, messages []rabbit.Message) []error {
				if messages[0].Late(time.Now()) {
					return []error{errors.New("not sent")} // as a publisher answers
				}
				tries++
				if bound := messages[0].Headers[rabbit.HeaderFirstSeen]; tries > 1 && bound != afternoon.UnixMilli() {
					t.Errorf("the bound of publication %d is %v", tries, bound)
				}
				if tries+1 == frozenBefore {
					time.Sleep(25 * time.Minute)
				}
				time.Sleep(time.Second)
				return []error{engine.ErrUnknown}
			})
			settled := verdicts{}
			c := stage.chunks()
			must.OK(t, c.Add(original(body(1, 0), nil), consume.Arrival{Attempt: 1, Arrived: time.Now(), Settler: numbered{settled, 0}}))
			if frozenBefore == 1 {
				time.Sleep(25 * time.Minute)
			}
			if err := c.HandOver(t.Context()); err != nil || c.Len() != 0 {
				t.Errorf("%d left: %v", c.Len(), err)
			}
			if v := settled[0]; len(v) != 1 || v[0].Outcome != engine.Unsettled || tries != frozenBefore-1 {
				t.Errorf("frozen before publication %d: %d publications, %v", frozenBefore, tries, v)
			}
		})
	}
}

type counter struct{ n int }

func (c *counter) Write(p []byte) (int, error) {
	c.n++
	return len(p), nil
}

// A chunk refuses what a worker would refuse, with the reason of the dead letter.
func TestMalformedMessagesAreRefused(t *testing.T) {
	c := alone(nil).chunks()
	for _, text := range []string{`{`, `{"user_id":0}`, string(body(0, 1))} {
		_, want := profile.ParseEvent([]byte(text), time.Now())
		reason := engine.ReasonOf(want)
		if err := c.Add(original([]byte(text), nil), consume.Arrival{Arrived: afternoon}); engine.KindOf(err) != engine.Permanent || engine.ReasonOf(err) != reason {
			t.Errorf("%s: %v, want the reason %s", text, err, reason)
		}
	}
	if c.Len() != 0 {
		t.Errorf("%d messages were kept", c.Len())
	}
}

// The copy is the original but for its address and the marks of the broker.
//
// Promise(redelivery/partition-killed): A copy of a killed `keyfold partition` is never folded twice:
// it says that it was not folded 5 minutes before it occurred.
// Promise(partitions/common-exchange)
func TestCopiesCarryTheirHeaders(t *testing.T) {
	const occurred = engine.Millis(1770733800000)
	errs := `[{"at":1,"error":"503"}]`
	for name, c := range map[string]struct {
		headers map[string]any
		arrival consume.Arrival
		want    map[string]any
	}{
		"new":  {nil, consume.Arrival{Attempt: 1}, map[string]any{rabbit.HeaderExchange: "user_events"}},
		"own":  {map[string]any{"trace": "t", "CC": []any{"x"}}, consume.Arrival{Attempt: 1}, map[string]any{rabbit.HeaderExchange: "user_events", "trace": "t"}},
		"text": {map[string]any{rabbit.HeaderFirstSeen: "soon"}, consume.Arrival{Attempt: 1}, map[string]any{rabbit.HeaderExchange: "user_events"}},
		"retried": {
			map[string]any{
				rabbit.HeaderFirstSeen: int64(5), rabbit.HeaderAttempts: int64(2), rabbit.HeaderErrors: errs, rabbit.HeaderExchange: "elsewhere",
				rabbit.HeaderDeath: []any{}, rabbit.HeaderReason: "expired", rabbit.HeaderFirstExchange: "",
			},
			consume.Arrival{Attempt: 3, FirstSeen: 5, Redelivered: true},
			map[string]any{rabbit.HeaderFirstSeen: int64(5), rabbit.HeaderAttempts: int64(2), rabbit.HeaderErrors: errs, rabbit.HeaderExchange: "elsewhere"},
		},
		"of a clock that is ahead": {
			nil,
			consume.Arrival{Attempt: 1, FirstSeen: engine.MillisOf(afternoon) + 1},
			map[string]any{rabbit.HeaderExchange: "user_events", rabbit.HeaderFirstSeen: afternoon.UnixMilli()},
		},
		"delivered before": {
			nil,
			consume.Arrival{Attempt: 1, Redelivered: true},
			map[string]any{rabbit.HeaderExchange: "user_events", rabbit.HeaderFirstSeen: int64(occurred - profile.MaxFutureMillis)},
		},
	} {
		o := original(body(17, 1), c.headers)
		o.Timestamp, o.Priority, o.Properties = time.Unix(1700000000, 0), 7, rabbit.Properties{AppID: "shop", CorrelationID: "c", Type: "t"}
		e, err := profile.ParseEvent(o.Body, time.Now())
		if err != nil || e.OccurredAt != occurred {
			t.Fatal(err, e.OccurredAt)
		}
		c.arrival.Arrived = afternoon
		m := copyOf(rabbit.DefaultNames(), o, c.arrival, &e)
		if !maps.EqualFunc(m.Headers, c.want, func(a, b any) bool { return a == b }) {
			t.Errorf("%s: headers %v, want %v", name, m.Headers, c.want)
		}
		if m.ID != "m1" || m.Exchange != "user_event_slots" || m.RoutingKey != fmt.Sprintf("%02d", engine.SlotOf(17)) ||
			!m.Timestamp.Equal(o.Timestamp) || m.Priority != 7 || m.Properties != o.Properties || string(m.Body) != string(o.Body) {
			t.Errorf("%s: %+v", name, m)
		}
		o.ID = "another"
		if m = copyOf(rabbit.DefaultNames(), o, c.arrival, &e); m.ID != o.ID {
			t.Errorf("%s: the id %q became %q", name, o.ID, m.ID)
		}
	}
	if mayBeStored(errors.New("not sent")) {
		t.Error("what was not sent may be stored")
	}
}
