package stream

import (
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/internal/testserver/authoritytest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/sitetest"
	"keyfold/source/rabbit"
)

// The name in a client's certificate is the user, by both protocols and by the same parameters
// of the address. What is refused is told with what to do.
//
// Promise(rabbitmq/external): A client certificate is the account where the address says auth_mechanism=external; who is refused is told why.
func TestExternal(t *testing.T) {
	t.Parallel()
	authority, stranger := authoritytest.New(t), authoritytest.New(t)
	certificate, key := authority.Issue(t, nil)
	b := rabbittest.StartStreams(t, 4, &rabbittest.TLSFiles{Authority: authority.File(), Certificate: certificate, Key: key, Accounts: true})
	b.AddUser(t, "shop", "x")
	vhost := b.VHost(t)
	b.Permit(t, vhost, "shop", ".*", ".*", ".*")
	named := func(name string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject.CommonName = name }
	}
	expired := func(c *x509.Certificate) {
		named("shop")(c)
		authoritytest.Expired(c)
	}
	with := func(a *authoritytest.Authority, change func(*x509.Certificate)) url.Values {
		certificate, key := a.Issue(t, change)
		return url.Values{"certfile": {certificate}, "keyfile": {key}}
	}
	streams := func(parameters url.Values) string {
		parameters.Set("cacertfile", authority.File())
		return "rabbitmq-stream+tls://" + b.StreamTLSAddress() + "/" + vhost + "?" + parameters.Encode()
	}
	external := func(parameters url.Values) url.Values {
		parameters.Set("auth_mechanism", "external")
		return parameters
	}
	dial := map[string]func(url.Values) error{
		"streams": func(parameters url.Values) error {
			c, err := Dial(t.Context(), Config{URI: streams(parameters), Timing: sitetest.Quick})
			if err == nil {
				c.Close(t.Context())
			}
			return err
		},
		"AMQP": func(parameters url.Values) error {
			parameters.Set("cacertfile", authority.File())
			d := rabbit.Dialer{DSN: "amqps://" + b.TLSAddress() + "/" + vhost + "?" + parameters.Encode(), Timing: sitetest.Quick.OrDefaults()}
			conn, socket, err := d.Dial(t.Context())
			if err == nil {
				rabbit.CloseBounded(t.Context(), conn, socket)
			}
			return err
		},
	}
	for protocol, dial := range dial {
		if err := dial(external(with(authority, named("shop")))); err != nil {
			t.Errorf("%s: %v", protocol, err)
		}
		for what, x := range map[string]struct {
			parameters url.Values
			id         causes.ID
		}{
			"a name that is no user": {with(authority, named("stranger")), causes.Certificate},
			"another authority":      {with(stranger, named("shop")), causes.Handshake},
			"expired":                {with(authority, expired), causes.Handshake},
		} {
			refused(t, protocol+", "+what, x.id, func() error { return dial(external(x.parameters)) })
		}
		refused(t, protocol+" without a certificate", causes.Handshake, func() error { return dial(url.Values{}) })
		if err := dial(external(url.Values{})); engine.ReasonOf(err) != rabbit.ReasonBadCertificate || !strings.Contains(err.Error(), "certfile") {
			t.Errorf("%s, external without a certificate: %v", protocol, err)
		}
	}
	// The certificate is the account at the leader too.
	c, err := Dial(t.Context(), Config{URI: streams(external(with(authority, named("shop")))), Timing: sitetest.Quick})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{TB: t, broker: b, config: Config{URI: streams(external(with(authority, named("shop")))), Timing: sitetest.Quick}, Conn: c}
	defer c.Close(t.Context())
	name := s.create(nil)
	s.put(name, 0, 10)
	if got := s.subscribe(name, First, 10).read(10); got[9] != "body 9" {
		t.Errorf("%v", got)
	}
	leader, err := DialLeader(s.ctx(), s.config, name)
	s.check(err)
	leader.Close(s.ctx())
}

// refused waits for an error that names this cause and the certificate in its cure. By TLS 1.3 a
// client is told after its own part of the handshake is over: where it wrote to a socket that was
// closed meanwhile, the broker's reason is lost, and the next try may read it.
func refused(t *testing.T, what string, id causes.ID, dial func() error) {
	t.Helper()
	var err error
	must.Hold(t, what+" is refused with its cause", func() bool {
		err = dial()
		cause, known := errors.AsType[*causes.Error](err)
		return err == nil || known && cause.ID == id && engine.KindOf(err) == engine.Configuration && strings.Contains(cause.Cure(), "certfile and keyfile")
	})
	if err == nil {
		t.Errorf("%s is not refused", what)
	}
}
