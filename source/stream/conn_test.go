package stream

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/internal/testserver/authoritytest"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
)

// Who is refused is told why, in words that no password stands in.
//
// Promise(rabbitmq/stream-faults): A connection by the stream protocol that cannot be made names its cause and its cure.
func TestRefusals(t *testing.T) {
	onSite(t, func(s *site) {
		s.broker.AddUser(s, "keyfold", "secret word")
		closed, err := net.Listen("tcp", "127.0.0.1:0")
		s.check(err)
		closed.Close()
		uri := func(user, password, address, vhost string) string {
			return "rabbitmq-stream://" + url.UserPassword(user, password).String() + "@" + address + "/" + vhost
		}
		address := s.broker.StreamAddress()
		for _, x := range []struct {
			uri  string
			kind engine.Kind
			id   causes.ID
		}{
			{uri("keyfold", "wrong secret word", address, s.vhost), engine.Configuration, causes.Credentials},
			{uri("stranger", "secret word", address, s.vhost), engine.Configuration, causes.Credentials},
			{uri("keyfold", "secret word", address, s.vhost), engine.Configuration, causes.Missing}, // it has no rights there
			{uri("guest", "guest", address, "elsewhere"), engine.Configuration, causes.Missing},
			{uri("guest", "guest", closed.Addr().String(), s.vhost), engine.Transient, causes.Refused},
		} {
			_, err := Dial(s.ctx(), Config{URI: x.uri, Timing: sitetest.Quick})
			cause, known := errors.AsType[*causes.Error](err)
			if !known || cause.ID != x.id || engine.KindOf(err) != x.kind || strings.Contains(err.Error(), "secret word") {
				s.Errorf("%s: %v, %v", x.id, engine.KindOf(err), err)
			}
		}
	})
}

func TestRightsAreMissing(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(nil)
		user := "reader of " + s.vhost
		s.broker.AddUser(s, user, "x")
		s.broker.Permit(s, s.vhost, user, "", "", "")
		s.config.URI = strings.Replace(s.config.URI, "guest:guest", url.UserPassword(user, "x").String(), 1)
		c := s.dial(s.config)
		_, err := c.Subscribe(s.ctx(), Consume{Stream: name, From: First, Credit: 1})
		if engine.ReasonOf(err) != "access_refused" || !strings.Contains(err.Error(), name) {
			s.Error(err)
		}
		_, err = c.DeclarePublisher(s.ctx(), Publishing{Stream: name})
		if engine.ReasonOf(err) != "access_refused" || !strings.Contains(err.Error(), name) {
			s.Error(err)
		}
	})
}

// What is no URL of streams is refused without being repeated.
func TestURIs(t *testing.T) {
	for uri, want := range map[string]string{
		"rabbitmq-stream://u:p@host/v":              "rabbitmq-stream://u:***@host:5552/v",
		"rabbitmq-stream://u:p@host:1234":           "rabbitmq-stream://u:***@host:1234/",
		"rabbitmq-stream+tls://u:p@host/%2F":        "rabbitmq-stream+tls://u:***@host:5551/",
		"amqp://u:p@host:5672/v":                    "rabbitmq-stream://u:***@host:5552/v",
		"amqps://u:p@[::1]:5671/v":                  "rabbitmq-stream+tls://u:***@[::1]:5551/v",
		"http://u:p@host":                           "(unreadable URL)",
		"rabbitmq-stream://u:p/word@host":           "(unreadable URL)",
		"rabbitmq-stream+tls://u:p@h?cacertfile=no": "(unreadable URL)",
	} {
		if got := Redact(uri); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
		_, err := parse(uri)
		if refused := strings.HasPrefix(want, "("); refused != (engine.KindOf(err) == engine.Configuration) {
			t.Errorf("%s: %v", uri, err)
		} else if refused && strings.Contains(err.Error(), "p/word") {
			t.Error(err)
		}
	}
}

// The certificate is verified, and what is wrong with it is told.
//
// Promise(rabbitmq/stream-faults)
func TestTLS(t *testing.T) {
	t.Parallel()
	authority := authoritytest.New(t)
	certificate, key := authority.Issue(t, nil)
	b := rabbittest.StartStreams(t, 4, &rabbittest.TLSFiles{Authority: authority.File(), Certificate: certificate, Key: key})
	s := &site{TB: t, broker: b}
	uri := strings.Replace(rabbittest.StreamURI(b.StreamTLSAddress(), "/"), "rabbitmq-stream", "rabbitmq-stream+tls", 1)
	trusting := uri + "?cacertfile=" + url.QueryEscape(authority.File())
	s.config = Config{URI: trusting, Timing: sitetest.Quick}
	s.Conn = s.dial(s.config)
	name := s.create(nil)
	s.put(name, 0, 10)
	if got := s.subscribe(name, First, 10).read(10); got[9] != "body 9" {
		t.Errorf("%v", got)
	}
	c, err := DialLeader(s.ctx(), s.config, name)
	s.check(err)
	c.Close(s.ctx())

	for want, uri := range map[causes.ID]string{
		causes.UnknownAuthority: uri,
		causes.OtherHost:        trusting + "&server_name_indication=elsewhere",
		causes.NeedsTLS:         rabbittest.StreamURI(b.StreamTLSAddress(), "/"),
		causes.Lost:             strings.Replace(trusting, b.StreamTLSAddress(), b.StreamAddress(), 1),
	} {
		_, err := Dial(s.ctx(), Config{URI: uri, Timing: sitetest.Quick})
		if cause, known := errors.AsType[*causes.Error](err); !known || cause.ID != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	external := trusting + "&auth_mechanism=external&" + url.Values{"certfile": {certificate}, "keyfile": {key}}.Encode()
	_, err = Dial(s.ctx(), Config{URI: external, Timing: sitetest.Quick})
	if cause, known := errors.AsType[*causes.Error](err); !known || cause.ID != causes.Certificate || !errors.Is(err, mechanismNotSupported) {
		t.Errorf("a broker without the plugin for certificates: %v", err)
	}
	if _, err := Dial(s.ctx(), Config{URI: uri, Timing: sitetest.Quick}); !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Error(err)
	}
}

// A broker that is silent for two heartbeats is given up, with what was subscribed to, and
// one that has nothing to say is not.
//
// Promise(rabbitmq/stream-silence): A connection by the stream protocol ends when the broker is silent for two heartbeats.
func TestSilentBroker(t *testing.T) {
	onSite(t, func(s *site) {
		proxy := rabbittest.NewProxy(s, s.broker.StreamAddress())
		s.config.URI = rabbittest.StreamURI(proxy.Address(), s.vhost)
		s.config.Timing.Heartbeat = 2 * time.Second
		s.Conn = s.dial(s.config)
		name := s.create(nil)
		in := s.subscribe(name, Next, 1)
		// Several heartbeats of both sides pass: each would have ended it.
		select {
		case <-s.Done():
			s.Fatal(s.Err())
		case <-time.After(9 * time.Second):
		}
		s.put(name, 0, 1)
		in.next()
		proxy.Freeze()
		if err := in.ended(); !strings.Contains(err.Error(), "silent for 4s, two heartbeats") || engine.ReasonOf(err) != causes.NoAnswer.Reason() {
			s.Error(err)
		}
		if err := s.Err(); err == nil || in.Credit(1) == nil {
			s.Errorf("the connection: %v", err)
		}
	})
}

// A call whose context ends does not wait, and ends the connection.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	proxy := rabbittest.NewProxy(s, s.broker.StreamAddress())
	s.config.URI = rabbittest.StreamURI(proxy.Address(), s.vhost)
	c := s.dial(s.config)
	proxy.Freeze()
	ctx, cancel := context.WithTimeout(s.ctx(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Metadata(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	<-c.Done()
	if _, err := Dial(ctx, s.config); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("dial: %v", err)
	}
}

// A lost connection ends what was open on it.
//
// Promise(rabbitmq/stream-lost): A lost connection of the stream protocol ends its subscriptions and publishers with the reason.
func TestLostConnection(t *testing.T) {
	onSite(t, func(s *site) {
		proxy := rabbittest.NewProxy(s, s.broker.StreamAddress())
		s.config.URI = rabbittest.StreamURI(proxy.Address(), s.vhost)
		s.Conn = s.dial(s.config)
		name := s.create(nil)
		in := s.subscribe(name, Next, 1)
		p := s.publisher(name, "")
		proxy.Cut()
		if err := in.ended(); engine.ReasonOf(err) != causes.Lost.Reason() {
			s.Errorf("the subscription: %v", err)
		}
		<-p.Done()
		if p.Err() == nil || p.Publish(s.numbered(0, 1)) == nil {
			s.Error("the publisher goes on")
		}
	})
}

func TestCloseEndsAll(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	name := s.create(nil)
	in, p := s.subscribe(name, Next, 1), s.publisher(name, "")
	s.Close(s.ctx())
	if !errors.Is(in.ended(), ErrClosed) || !errors.Is(p.Err(), ErrClosed) || !errors.Is(s.Err(), ErrClosed) {
		t.Errorf("%v, %v, %v", in.Err(), p.Err(), s.Err())
	}
	if _, err := s.Subscribe(s.ctx(), Consume{Stream: name, From: Next}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	s.Close(s.ctx()) // it may be called again
}

// Where a node knows no leader, the error has a cure, also if the node says no more than that the
// stream is not available. A stream that is not there has another cure.
func TestLeaderless(t *testing.T) {
	for _, c := range []struct {
		m    Metadata
		cure bool
	}{{Metadata{}, true}, {Metadata{Err: StreamNotAvailable}, true}, {Metadata{Err: StreamMissing}, false}} {
		if err := c.m.leaderless(); err == nil || strings.Contains(err.Error(), "start the nodes that hold it") != c.cure || !errors.Is(err, c.m.Err) && c.m.Err != nil {
			t.Errorf("%+v: %v", c.m, err)
		}
	}
	if err := (Metadata{Leader: Node{Host: "node-1", Port: 5552}}).leaderless(); err != nil {
		t.Error(err)
	}
}

// A stream is found by its leader's advertised address, which is named where it cannot be
// reached.
//
// Promise(rabbitmq/stream-leader): A stream's leader that cannot be reached is named with the host and port that it advertises.
func TestLeader(t *testing.T) {
	onSite(t, func(s *site) {
		name := s.create(nil)
		all, err := s.Metadata(s.ctx(), name, "no such stream")
		s.check(err)
		leader := all[name].Leader
		if leader.String() != s.broker.StreamAddress() || all[name].Err != nil || !errors.Is(all["no such stream"].Err, StreamMissing) {
			s.Errorf("%+v", all)
		}
		c, err := DialLeader(s.ctx(), s.config, name)
		s.check(err)
		if c.Properties()["version"] == "" {
			s.Errorf("%v", c.Properties())
		}
		c.Close(s.ctx())
		if _, err := DialLeader(s.ctx(), s.config, "no such stream"); !errors.Is(err, StreamMissing) || engine.KindOf(err) != engine.Configuration {
			s.Error(err)
		}
		// Where the leader is another node, its address is the one that Address gives.
		through := s.config
		proxy := rabbittest.NewProxy(s, s.broker.StreamAddress())
		through.Address = func(string, int) string { return proxy.Address() }
		c, err = dialNode(s.ctx(), through, name, leader)
		s.check(err)
		if at := c.socket.RemoteAddr().String(); at != proxy.Address() {
			s.Errorf("connected to %s", at)
		}
		c.Close(s.ctx())
		// As if the leader were another node.
		other := Node{Host: "node-2.invalid", Port: 5552}
		if _, err := dialNode(s.ctx(), s.config, name, other); err == nil || !strings.Contains(err.Error(), "node-2.invalid:5552: set stream.advertised_host") {
			s.Error(err)
		}
		// A load balancer, behind which is no such node.
		s.config.Address = func(host string, port int) string {
			if host != other.Host || port != other.Port {
				s.Errorf("%s:%d", host, port)
			}
			return s.broker.StreamAddress()
		}
		if _, err := dialNode(s.ctx(), s.config, name, other); !errors.Is(err, errOtherNode) {
			s.Error(err)
		}
	})
}
