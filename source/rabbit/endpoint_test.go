package rabbit_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/internal/testserver/authoritytest"
	"keyfold/internal/testserver/must"
	"keyfold/source/rabbit"
)

// An endpoint has what the URL says, and the certificates that it names.
func TestParseEndpoint(t *testing.T) {
	e, err := rabbit.ParseEndpoint("amqp://user:pass%2Fword@host:1234/v%2Fhost?connection_timeout=1500")
	if err != nil || e.TLS != nil || e.Host != "host" || e.Port != 1234 || e.User != "user" || e.Password != "pass/word" ||
		e.VHost != "v/host" || e.Connect != 1500*time.Millisecond || e.External {
		t.Errorf("%+v, %v", e, err)
	}
	authority := authoritytest.New(t)
	certificate, key := authority.Issue(t, nil)
	parameters := url.Values{"cacertfile": {authority.File()}, "certfile": {certificate}, "keyfile": {key}, "server_name_indication": {"name"}}
	e, err = rabbit.ParseEndpoint("amqps://host/?" + parameters.Encode())
	if err != nil || e.TLS.RootCAs == nil || len(e.TLS.Certificates) != 1 || e.TLS.ServerName != "name" || e.External || e.Port != 5671 {
		t.Errorf("%+v, %v", e, err)
	}
	for mechanisms, want := range map[string]bool{"EXTERNAL": true, "external&auth_mechanism=plain": true, "plain&auth_mechanism=external": false} {
		e, err := rabbit.ParseEndpoint("amqps://host/?" + parameters.Encode() + "&auth_mechanism=" + mechanisms)
		if err != nil || e.External != want {
			t.Errorf("%s: %+v, %v", mechanisms, e, err)
		}
	}
	if e, err := rabbit.ParseEndpoint("amqps://host/"); err != nil || e.TLS == nil || e.TLS.RootCAs != nil {
		t.Errorf("%+v, %v: want the machine's authorities", e, err)
	}
}

// What cannot be read is a configuration fault that names the file and no password.
func TestEndpointsThatCannotBeUsed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must.OK(t, os.WriteFile(empty, nil, 0o600))
	for dsn, want := range map[string]string{
		"http://user:secret@host":                                      "is not an AMQP URL",
		"amqps://user:secret@host/?cacertfile=/no/such.pem":            "/no/such.pem",
		"amqps://user:secret@host/?cacertfile=" + empty:                "empty.pem has no certificate",
		"amqps://user:secret@host/?certfile=/no/a.pem&keyfile=/no/b":   "/no/a.pem",
		"amqps://user:secret@host/?certfile=" + empty + "&keyfile=/no": "/no",
		"amqps://user:secret@host/?auth_mechanism=external":            "no client certificate",
		"amqp://user:secret@host/?auth_mechanism=external":             "no client certificate",
	} {
		_, err := rabbit.ParseEndpoint(dsn)
		if engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
