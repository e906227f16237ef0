package consume

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// letters waits for n dead letters and returns them by message id.
func (s *site) letters(n int) map[string]amqp.Delivery {
	s.T.Helper()
	sitetest.Eventually(s.T, "dead letters", func() bool { return s.Depth(s.Names.DeadLetters) >= n })
	ch := s.Channel()
	all := map[string]amqp.Delivery{}
	for range n {
		d, ok, err := ch.Get(s.Names.DeadLetters, true)
		if err != nil || !ok {
			s.T.Fatal(ok, err)
		}
		all[d.MessageId] = d
	}
	return all
}

// letter is a dead letter's body.
type letter struct {
	Original json.RawMessage `json:"original_message"`
	Encoding string          `json:"original_encoding"`
	Info     struct {
		RetryCount    int       `json:"retry_count"`
		First         time.Time `json:"first_failure_at"`
		Last          time.Time `json:"last_failure_at"`
		ErrorMessages []string  `json:"error_messages"`
		WorkerHost    string    `json:"worker_host"`
	} `json:"failure_info"`
}

func read(t *testing.T, d amqp.Delivery) letter {
	t.Helper()
	var l letter
	if err := json.Unmarshal(d.Body, &l); err != nil {
		t.Fatalf("%v in %s", err, d.Body)
	}
	return l
}

// Promise(event/malformed)
func TestMalformedBodiesAreDeadLettered(t *testing.T) {
	s := shared(t)
	bodies := map[string]struct{ body, reason string }{
		"type":   {`{"user_id":"5","event_type":"search", "search_phrase":"a<b"}`, ""},
		"text":   {"not json", engine.ReasonMalformedJSON},
		"empty":  {"", engine.ReasonMalformedJSON},
		"bytes":  {"{\"a\":\"\xff\xfe\"}", engine.ReasonInvalidUTF8},
		"double": {`{"user_id":1,"user_id":2}`, engine.ReasonDuplicateKey},
		"large":  {`{"x":"` + strings.Repeat("x", profile.MaxBodyBytes) + `"}`, engine.ReasonBodyTooLarge},
	}
	at := time.Date(2026, 2, 10, 14, 30, 0, 0, time.UTC)
	var all []rabbit.Message
	for id, b := range bodies {
		all = append(all, rabbit.Message{
			Exchange: s.Names.Exchange, RoutingKey: s.Names.RoutingKey(profile.Search), ID: id, Timestamp: at,
			Body: []byte(b.body), Headers: amqp.Table{"trace": "abc", "x-death": "forged"},
		})
	}
	s.Publish(all...)
	s.Publish(s.Messages(5)...)
	start := time.Now().Truncate(time.Second)
	r := s.run(s.config(), settleAtOnce)
	letters := s.letters(len(bodies))
	for id, b := range bodies {
		d := letters[id]
		l := read(t, d)
		if l.Encoding == "base64" {
			var text string
			_ = json.Unmarshal(l.Original, &text)
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil || string(raw) != b.body {
				t.Errorf("%s: base64 of %q, %v", id, raw, err)
			}
		} else if string(l.Original) != b.body {
			t.Errorf("%s: original %.60s", id, l.Original)
		}
		if l.Info.RetryCount != 0 || len(l.Info.ErrorMessages) != 1 || l.Info.WorkerHost != "test-host" ||
			l.Info.First.Before(start) || !l.Info.First.Equal(l.Info.Last) {
			t.Errorf("%s: %+v", id, l.Info)
		}
		h := d.Headers
		if b.reason != "" && h[rabbit.HeaderReason] != b.reason || h[rabbit.HeaderFirstExchange] != s.Names.Exchange || h["trace"] != "abc" ||
			h["x-original-timestamp"] != "2026-02-10T14:30:00+00:00" || h["x-death"] != nil || h[rabbit.HeaderFirstSeen].(int64) < start.UnixMilli() {
			t.Errorf("%s: headers %v", id, h)
		}
		if d.DeliveryMode != amqp.Persistent || d.ContentType != "application/json" || d.AppId != "keyfold" {
			t.Errorf("%s: properties %+v", id, d)
		}
	}
	sitetest.Eventually(t, "originals acknowledged", func() bool { return r.Stats.Acked.Load() == int64(len(bodies)+5) })
	if r.Stats.Malformed.Load() != int64(len(bodies)) || s.Depth(s.Names.Queue) != 0 {
		t.Errorf("%d malformed", r.Stats.Malformed.Load())
	}
}

// letterBody is how much of a body a dead letter keeps.
const letterBody = 4 * profile.MaxBodyBytes

// A body whose letter is over what the broker takes is cut, with its length and
// hash, and keeps no other letter back.
//
// Promise(event/large-body)
func TestOversizedBodyIsCut(t *testing.T) {
	s := newSite(t, sitetest.OwnBroker(t))
	const most = 1 << 20
	// RabbitMQ 4 goes by a copy of the variable.
	const follow = "persistent_term:put(max_message_size, element(2, application:get_env(rabbit, max_message_size)))."
	t.Cleanup(func() {
		if _, err := s.Broker.Eval(follow); err != nil {
			t.Error(err)
		}
	})
	sitetest.SetEnv(t, s.Broker, "max_message_size", most)
	if _, err := s.Broker.Eval(follow); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("\xfe"), most-1) // its base64 is over the limit
	bad := func(id string, body []byte) rabbit.Message {
		return rabbit.Message{Exchange: s.Names.Exchange, RoutingKey: "user.embedding.search", ID: id, Body: body}
	}
	s.Publish(bad("small", []byte("bad")), bad("large", large), bad("last", []byte("worse")))
	r := s.run(s.config(), settleAtOnce)
	letters := s.letters(3)
	sitetest.Eventually(t, "all are acknowledged", func() bool { return r.Stats.Acked.Load() == 3 })
	if n := s.Depth(s.Names.DeadLetters); n != 0 {
		t.Errorf("%d letters more than there were bad messages", n)
	}
	d := letters["large"]
	sum := sha256.Sum256(large)
	if reason := d.Headers[rabbit.HeaderReason]; reason != engine.ReasonBodyTooLarge {
		t.Errorf("reason %v", reason)
	}
	var raw struct {
		Original  []byte `json:"original_message"`
		Truncated bool   `json:"original_truncated"`
		Length    int    `json:"original_length"`
		SHA256    string `json:"original_sha256"`
	}
	if err := json.Unmarshal(d.Body, &raw); err != nil || !raw.Truncated || raw.Length != len(large) ||
		raw.SHA256 != hex.EncodeToString(sum[:]) || !bytes.Equal(raw.Original, large[:letterBody]) {
		t.Errorf("%v: truncated %v, %d of %d bytes", err, raw.Truncated, len(raw.Original), raw.Length)
	}
}

// stubborn is a dead-letter queue that loses a group with a certain letter, as a
// broker does that closes the channel, and counts what it stored.
type stubborn struct {
	bad string

	mu     sync.Mutex
	stored map[string]int
}

func (q *stubborn) Store(_ context.Context, letters []Letter) []error {
	q.mu.Lock()
	defer q.mu.Unlock()
	errs := make([]error, len(letters))
	for i := range letters {
		if letters[i].Message.ID == q.bad {
			for j := range errs[i:] {
				errs[i+j] = errors.New("the channel is closed")
			}
			break
		}
		q.stored[letters[i].Message.ID]++
	}
	return errs
}

func (q *stubborn) cure() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bad = ""
}

// One letter that is never stored keeps back no other one, each of which is
// stored once; what waits can be asked for, with the reason.
//
// Promise(event/letter-refused): A letter that the broker does not take goes out alone from then on
// and delays no other; `/readyz` and `keyfold_dead_letters_unstored` tell.
func TestOneLetterThatIsNotStored(t *testing.T) {
	const n = 500
	s := shared(t)
	q := &stubborn{bad: "bad 100", stored: map[string]int{}}
	c, err := New(s.config(), Ports{DeadLetters: q, Retries: InProcess{}, Log: sitetest.Quiet})
	must.OK(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, Events(settleAtOnce)) }()
	bad := make([]rabbit.Message, n)
	for i := range bad {
		bad[i] = rabbit.Message{Exchange: s.Names.Exchange, RoutingKey: "user.embedding.search", ID: fmt.Sprint("bad ", i), Body: []byte("bad")}
	}
	s.Publish(bad...)
	sitetest.Eventually(t, "all but one are stored", func() bool { return c.Stats.DeadLetters.Load() == n-1 })
	sitetest.Eventually(t, "the other one waits", func() bool { waiting, cause := c.Unstored(); return waiting == 1 && cause != nil })
	s.Publish(bad[:10]...)
	sitetest.Eventually(t, "later ones are stored", func() bool { return c.Stats.DeadLetters.Load() == n+9 })
	q.cure()
	sitetest.Eventually(t, "it is stored at last", func() bool { return c.Stats.DeadLetters.Load() == n+10 })
	sitetest.Eventually(t, "none waits", func() bool { waiting, cause := c.Unstored(); return waiting == 0 && cause == nil })
	stop()
	if err := errors.Join(<-done, c.Close(sitetest.Within(t, sitetest.Ample))); err != nil {
		t.Error(err)
	}
	for i := range n {
		want := 1
		if i < 10 {
			want = 2
		}
		if got := q.stored[fmt.Sprint("bad ", i)]; got != want {
			t.Errorf("letter %d was stored %d times, want %d", i, got, want)
		}
	}
}

func TestDeadVerdict(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(1)...)
	var in inbox
	s.run(s.config(), in.deliver)
	sitetest.Eventually(t, "delivery", func() bool { return in.len() == 1 })
	in.take()[0].Settler.Settle(engine.Verdict{
		Outcome: engine.Dead, Reason: "vector_not_finite", Err: errors.New(strings.Repeat("é", 600)),
	})
	d := s.letters(1)["m000000"]
	l := read(t, d)
	if d.Headers[rabbit.HeaderReason] != "vector_not_finite" || string(l.Original) != string(sitetest.Body(0)) {
		t.Errorf("%v %s", d.Headers, l.Original)
	}
	if text := l.Info.ErrorMessages[0]; len(text) > 500 || strings.Trim(text, "é") != "" {
		t.Errorf("error text of %d bytes", len(text))
	}
}

// An original is acknowledged only once its dead letter is safe.
//
// Promise(event/letter-refused)
func TestDeadLetterQueueMissing(t *testing.T) {
	s := shared(t)
	s.Broker.DeleteQueue(t, s.VHost, s.Names.DeadLetters)
	s.Publish(rabbit.Message{Exchange: s.Names.Exchange, RoutingKey: "user.embedding.search", ID: "bad", Body: []byte("bad")})
	r := s.run(s.config(), settleAtOnce)
	sitetest.Eventually(t, "delivery", func() bool { return r.Stats.Malformed.Load() == 1 })
	time.Sleep(100 * time.Millisecond)
	if r.Stats.Acked.Load() != 0 || r.Stats.Unacked.Load() != 1 {
		t.Error("acknowledged without a dead letter")
	}
	s.setup()
	s.letters(1)
	sitetest.Eventually(t, "acknowledged", func() bool { return r.Stats.Acked.Load() == 1 })
}

// An event is tried again with the same first-seen time, and given up after its
// retries; one that succeeds in between is acknowledged.
//
// Promise(event/retried)
func TestRetryThenExhausted(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(3)...)
	var in inbox
	config := s.config()
	config.MaxRetries = 3
	r := s.run(config, in.deliver)
	first := map[string]engine.Millis{}
	want := []int{3, 3, 2, 2} // events per attempt
	for attempt, n := range want {
		sitetest.Eventually(t, "an attempt on each", func() bool { return in.len() == n })
		for _, d := range in.take() {
			id := d.Event.MessageID
			if attempt == 1 {
				first[id] = d.FirstSeen
			}
			if d.FirstSeen != first[id] || (attempt > 0) != (d.FirstSeen > 0) {
				t.Errorf("attempt %d: first seen %d, want %d", attempt, d.FirstSeen, first[id])
			}
			if attempt == 1 && id == "m000001" {
				d.Settler.Settle(folded)
				continue
			}
			d.Settler.Settle(engine.Verdict{Outcome: engine.Retry, Err: fmt.Errorf("timeout %d", attempt)})
		}
		if attempt < 3 && r.Stats.DeadLetters.Load() != 0 {
			t.Error("given up too early")
		}
	}
	for id, d := range s.letters(2) {
		l := read(t, d)
		if d.Headers[rabbit.HeaderReason] != engine.ReasonRetriesExhausted || d.Headers[rabbit.HeaderFirstSeen] != int64(first[id]) ||
			l.Info.RetryCount != 3 || strings.Join(l.Info.ErrorMessages, ",") != "timeout 0,timeout 1,timeout 2,timeout 3" ||
			!l.Info.Last.After(l.Info.First.Add(-time.Second)) {
			t.Errorf("%s: %v %+v", id, d.Headers, l.Info)
		}
	}
	sitetest.Eventually(t, "all acknowledged", func() bool { return r.Stats.Acked.Load() == 3 })
	if r.Stats.Redelivered.Load() != 0 || r.Stats.Retried.Load() != 7 || r.Stats.Exhausted.Load() != 2 {
		t.Errorf("redelivered %d, retried %d, exhausted %d",
			r.Stats.Redelivered.Load(), r.Stats.Retried.Load(), r.Stats.Exhausted.Load())
	}
}

// Headers of a retry queue or a replay count on.
//
// Promise(rabbitmq/x-death)
func TestHeadersAreRead(t *testing.T) {
	s := shared(t)
	m := s.Messages(1)[0]
	m.Headers = amqp.Table{rabbit.HeaderFirstSeen: int64(1770733800123), rabbit.HeaderAttempts: int32(4)}
	s.Publish(m)
	var in inbox
	s.run(s.config(), in.deliver)
	for range 2 { // attempts 4 and 5 of five
		sitetest.Eventually(t, "delivery", func() bool { return in.len() == 1 })
		d := in.take()[0]
		if d.FirstSeen != 1770733800123 {
			t.Errorf("first seen %d", d.FirstSeen)
		}
		d.Settler.Settle(engine.Verdict{Outcome: engine.Retry, Err: errors.New("no")})
	}
	if l := read(t, s.letters(1)["m000000"]); l.Info.RetryCount != 5 {
		t.Errorf("%+v", l.Info)
	}
}

func TestMessageIDs(t *testing.T) {
	const without = `{"user_id":1,"event_type":"product_view","product_id":2,"occurred_at":"2026-02-10T14:30:00Z"}`
	with := string(sitetest.Body(7))
	null := strings.Replace(with, `"m000007"`, "null", 1)
	made := profile.MessageID(1, profile.ProductView, "2", "2026-02-10T14:30:00Z")
	for _, tc := range []struct{ body, property, want string }{
		{with, "", "m000007"},
		{with, "other", "m000007"},
		{without, "", made},
		{without, "property", "property"},
		{null, "property", "property"},
		{without, strings.Repeat("x", profile.MaxMessageRunes+1), made},
		{without, "\xff", made},
	} {
		o := rabbit.Original{Message: rabbit.Message{Body: []byte(tc.body), ID: tc.property}}
		e, err := EventOf(&o, time.Now())
		if err != nil || e.MessageID != tc.want || e.Digest != profile.DigestOf(tc.want) {
			t.Errorf("property %q: id %q, want %q (%v)", tc.property, e.MessageID, tc.want, err)
		}
	}
}

// replacing publishes a copy of a failed event elsewhere, as delay queues do.
type replacing struct {
	t    *testing.T
	site *site
}

func (r replacing) park(t *settler, _ time.Duration) {
	go func() {
		r.site.Publish(rabbit.Message{RoutingKey: r.site.Names.DeadLetters, ID: "copy", Body: t.message.Body, Headers: t.copyHeaders()})
		t.replaced()
	}()
}

// A confirmed copy takes an event's place, and carries how far it got.
func TestRetriesMayReplaceTheMessage(t *testing.T) {
	s := shared(t)
	s.Publish(s.Messages(1)...)
	var in inbox
	c, err := New(s.config(), Ports{Retries: replacing{t, s}, Log: sitetest.Quiet})
	must.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, Events(in.deliver)) }()
	sitetest.Eventually(t, "delivery", func() bool { return in.len() == 1 })
	before := int64(engine.Now())
	in.take()[0].Settler.Settle(engine.Verdict{Outcome: engine.Retry, Err: errors.New("no")})
	sitetest.Eventually(t, "original acknowledged", func() bool { return c.Stats.Acked.Load() == 1 })
	d := s.letters(1)["copy"]
	if first, _ := d.Headers[rabbit.HeaderFirstSeen].(int64); first == 0 || first > before || d.Headers[rabbit.HeaderAttempts] != int64(1) {
		t.Errorf("headers %v", d.Headers)
	}
	cancel()
	if err := errors.Join(<-done, c.Close(sitetest.Within(t, sitetest.Ample))); err != nil {
		t.Error(err)
	}
}
