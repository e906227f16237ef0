package rabbit

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/causes"
)

// Endpoint is what an AMQP URL says about a broker and the account there, for clients of
// its other protocols.
type Endpoint struct {
	Host                  string
	Port                  int
	User, Password, VHost string
	TLS                   *tls.Config   // nil: no TLS. Its ServerName is "" unless the URL has one
	External              bool          // the client certificate is the account (auth_mechanism=external)
	Connect               time.Duration // connection_timeout; 0: the URL has none
}

// ReasonBadCertificate is the reason of a URL whose cacertfile, certfile or keyfile cannot be used.
const ReasonBadCertificate = "bad_certificate"

// ParseEndpoint reads an AMQP URL and the certificates that it names. Its errors are
// configuration faults.
func ParseEndpoint(dsn string) (Endpoint, error) {
	uri, err := parseDSN(dsn)
	if err != nil {
		return Endpoint{}, err
	}
	e := Endpoint{
		Host: uri.Host, Port: uri.Port, User: uri.Username, Password: uri.Password, VHost: uri.Vhost,
		Connect: time.Duration(uri.ConnectionTimeout) * time.Millisecond,
	}
	e.External = external(uri)
	if err := checkExternal(uri); err != nil {
		return Endpoint{}, err
	}
	if uri.Scheme == "amqps" {
		if e.TLS, err = tlsOf(uri); err != nil {
			return Endpoint{}, engine.ConfigurationError(ReasonBadCertificate, fmt.Errorf("rabbitmq: the URL names a certificate that cannot be used: %w", err))
		}
	}
	return e, nil
}

// ErrExternal is in errors of a handshake in which the client certificate was the account.
var ErrExternal = errors.New("by auth_mechanism=external")

// external reports whether the client certificate is the account: of several mechanisms the
// first counts.
func external(uri amqp.URI) bool {
	return len(uri.AuthMechanism) > 0 && strings.EqualFold(uri.AuthMechanism[0], "external")
}

func checkExternal(uri amqp.URI) error {
	if !external(uri) || uri.Scheme == "amqps" && uri.CertFile != "" && uri.KeyFile != "" {
		return nil
	}
	return engine.ConfigurationError(ReasonBadCertificate, errors.New("rabbitmq: the URL has auth_mechanism=external and no client certificate, "+
		"which is the account then: write amqps:// or rabbitmq-stream+tls://, and name its PEM files by certfile= and keyfile="))
}

// tlsOf reads a URL's certificates, as the AMQP library does, whose function is its own.
func tlsOf(uri amqp.URI) (*tls.Config, error) {
	config := &tls.Config{ServerName: uri.ServerName, MinVersion: tls.VersionTLS12}
	if uri.CACertFile != "" {
		text, err := os.ReadFile(uri.CACertFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM form", uri.CACertFile)
		}
	}
	if uri.CertFile == "" || uri.KeyFile == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(uri.CertFile, uri.KeyFile)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}

// Refused gives an error of a broker's refusal its cause, and the reason that refusals of
// AMQP have.
func Refused(server causes.Server, id causes.ID, err error) error {
	if id == causes.Credentials && errors.Is(err, ErrExternal) {
		id = causes.Certificate
	}
	explained := causes.Explain(server, id, err)
	if reason := reasonOf[id]; reason != "" {
		return engine.ConfigurationError(reason, explained)
	}
	return explained
}
