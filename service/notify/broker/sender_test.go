package broker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
	"keyfold/sink/senders/message"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/topology"
)

// dispatch returns the dispatch of one event, or the digest of several.
func dispatch(channels []notify.Channel, events ...*notify.Notification) notify.Dispatch {
	d := notify.Dispatch{ID: events[0].ID, Events: events}
	digest := uuid.Nil
	if len(events) > 1 {
		digest = uuid.NewSHA1(uuid.NameSpaceOID, events[0].ID[:])
		d.ID = digest
	}
	for _, e := range events {
		d.Records = append(d.Records, notify.Record{
			DecisionID: uuid.New(), EventID: e.ID, UserID: e.UserID, Type: e.Type, Outcome: notify.Now, DecidedAt: engine.Now(),
			Channels: channels, DigestID: digest,
		})
	}
	return d
}

func (s *site) sender() *Sender { return NewSender(s.publisher, time.Minute) }

var toSMS = []notify.Channel{notify.SMS, notify.Push}

// A confirmed dispatch is a persistent message that the senders know by its id.
//
// Promise(dispatch/expiry)
func TestSenderPublishes(t *testing.T) {
	s := newSite(t, topology.Classic)
	one := dispatch(toSMS, event(t, 1, notify.Promo, `,"expires_at":"2999-01-01T00:00:00Z"`))
	now := time.Now().Truncate(time.Second)
	expires := func(within time.Duration) string {
		return `,"expires_at":"` + now.Add(within).UTC().Format(time.RFC3339) + `"`
	}
	digest := dispatch([]notify.Channel{notify.Email}, event(t, 2, notify.Update, expires(time.Hour)), event(t, 3, notify.Promo, expires(30*time.Minute)))
	without := dispatch(nil, event(t, 4, notify.Security, ""))
	sender := s.sender()
	sender.Now = func() engine.Millis { return engine.MillisOf(now) }
	for i, err := range sender.Send(t.Context(), []notify.Dispatch{one, digest, without}) {
		if err != nil {
			t.Errorf("dispatch %d: %v", i, err)
		}
	}
	for queue, want := range map[string]struct {
		dispatch notify.Dispatch
		key      string
		expires  time.Duration // 0: never
	}{
		"notification_dispatch.sms":   {one, "dispatch.sms.PROMO", 0}, // later than the broker can count
		"notification_dispatch.email": {digest, "dispatch.email.DIGEST", time.Hour},
	} {
		d := s.take(t, queue)
		if d == nil {
			t.Errorf("%s is empty", queue)
			continue
		}
		body, _ := message.Append(nil, &want.dispatch, nil)
		if d.MessageId != want.dispatch.ID.String() || d.RoutingKey != want.key || d.DeliveryMode != amqp.Persistent || string(d.Body) != string(body) {
			t.Errorf("%s: %+v", queue, d)
		}
		if within := lifeOf(t, d); within != want.expires {
			t.Errorf("%s expires within %v, want %v", queue, within, want.expires)
		}
	}
	// A record without channels goes where its event asked for first.
	if d := s.take(t, "notification_dispatch.email"); d == nil || d.RoutingKey != "dispatch.email.SECURITY" || d.MessageId != without.ID.String() {
		t.Errorf("without channels: %+v", d)
	}
}

func lifeOf(t *testing.T, d *amqp.Delivery) time.Duration {
	t.Helper()
	if d.Expiration == "" {
		return 0
	}
	within, err := time.ParseDuration(d.Expiration + "ms")
	must.OK(t, err)
	return within
}

// The broker drops a dispatch that no sender has taken when its event expires. What
// has expired before is not published.
//
// Promise(dispatch/expiry): A notification is not published at `expires_at` or later, and the broker
// drops it from the sender's queue then.
// Promise(notify/expiry)
func TestExpiredDispatches(t *testing.T) {
	s := newSite(t, topology.Classic)
	at := engine.MillisOf(time.Now().Add(time.Hour).Truncate(time.Second))
	e := event(t, 1, notify.Promo, `,"expires_at":"`+at.Time().UTC().Format(time.RFC3339)+`"`)
	sender := s.sender()
	for _, c := range []struct {
		now  engine.Millis
		sent bool
	}{{at - 1, true}, {at, false}, {at + 1, false}} {
		sender.Now = func() engine.Millis { return c.now }
		err := sender.Send(t.Context(), []notify.Dispatch{dispatch(toSMS, e)})[0]
		if (err == nil) != c.sent || engine.KindOf(err) != engine.Transient {
			t.Errorf("%d ms before it expires: %v", at-c.now, err)
		}
	}
	if n := s.publisher.Stats.Published.Load(); n != 1 {
		t.Errorf("%d published", n)
	}
	must.Hold(t, "the broker has dropped it", func() bool {
		depths, err := s.Depths(s.vhost)
		return err == nil && depths["notification_dispatch.sms"] == 0
	})
}

// A dispatch that no queue takes is a fault of the installation, not of its event; others
// in the same call are sent.
//
// Promise(notify/refused-dispatch): A dispatch that is refused or has no route leaves its decision and
// the event's attempts; it is tried again and told with the cure.
// Promise(dispatch/no-route): A dispatch that no queue takes is a fault that names `keyfold notify
// setup`; others are sent, and it goes out later under its id.
func TestUnroutableDispatches(t *testing.T) {
	s := newSite(t, topology.Classic)
	s.DeleteQueue(t, s.vhost, DispatchQueue(notify.SMS))
	lost, sent := dispatch(toSMS, event(t, 1, notify.Promo, "")), dispatch([]notify.Channel{notify.Push}, event(t, 2, notify.Promo, ""))
	errs := s.sender().Send(t.Context(), []notify.Dispatch{lost, sent})
	if checkNoQueue(t, errs[0], "dispatch.sms.PROMO"); errs[1] != nil {
		t.Error(errs[1])
	}
	if d := s.take(t, DispatchQueue(notify.Push)); d == nil || d.MessageId != sent.ID.String() {
		t.Errorf("%+v", d)
	}
	if err := Setup(t.Context(), s.dsn, Topology{QueueType: topology.Classic}); err != nil { // the cure
		t.Fatal(err)
	}
	if err := s.sender().Send(t.Context(), []notify.Dispatch{lost})[0]; err != nil {
		t.Error(err)
	}
}

// Promise(notify/refused-dispatch, dispatch/no-route)
func TestMissingDispatchExchange(t *testing.T) {
	s := newSite(t, topology.Classic)
	channel, err := rabbit.OpenChannel(t.Context(), s.dsn, "test", "delete")
	must.OK(t, err)
	must.OK(t, errors.Join(channel.ExchangeDelete(DispatchExchange, false, false), channel.Disconnect(t.Context())))
	all := []notify.Dispatch{dispatch(toSMS, event(t, 1, notify.Promo, "")), dispatch(toSMS, event(t, 2, notify.Promo, ""))}
	for _, err := range s.sender().Send(t.Context(), all) {
		checkNoQueue(t, err, DispatchExchange)
	}
	must.OK(t, Setup(t.Context(), s.dsn, Topology{QueueType: topology.Classic}))
	for _, err := range s.sender().Send(t.Context(), all) {
		if err != nil {
			t.Error(err)
		}
	}
}

func checkNoQueue(t *testing.T, err error, part string) {
	t.Helper()
	if engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != ReasonNoQueue ||
		!strings.Contains(err.Error(), part) || !strings.Contains(err.Error(), "broker.Setup") || strings.Contains(err.Error(), "rabbit.Setup") {
		t.Errorf("%v: %v", engine.KindOf(err), err)
	}
}

// A dispatch that cannot be written is permanent and keeps no other back.
func TestBrokenDispatch(t *testing.T) {
	s := newSite(t, topology.Classic)
	broken := dispatch(toSMS, event(t, 1, notify.Promo, ""))
	broken.Records = nil
	errs := s.sender().Send(t.Context(), []notify.Dispatch{broken, dispatch(toSMS, event(t, 2, notify.Promo, ""))})
	if engine.KindOf(errs[0]) != engine.Permanent || errs[1] != nil {
		t.Error(errs)
	}
}
