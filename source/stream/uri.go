package stream

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"keyfold/engine"
	"keyfold/source/rabbit"
)

// Ports of the stream plugin.
const (
	defaultPort    = 5552
	defaultTLSPort = 5551
)

// schemes are the ways to write a URL of the stream protocol, and what AMQP calls them.
var schemes = map[string]string{"rabbitmq-stream": "amqp", "rabbitmq-stream+tls": "amqps", "amqp": "amqp", "amqps": "amqps"}

// parse reads a URL. That of AMQP names another port than the one of streams: of such a
// URL the port is left out.
func parse(uri string) (rabbit.Endpoint, error) {
	scheme, rest, _ := strings.Cut(uri, "://")
	amqp, known := schemes[scheme]
	if !known {
		return rabbit.Endpoint{}, badURI()
	}
	e, err := rabbit.ParseEndpoint(amqp + "://" + rest)
	if engine.ReasonOf(err) == rabbit.ReasonBadDSN && scheme != amqp {
		err = badURI()
	}
	if err != nil {
		return e, err
	}
	if written, err := url.Parse(uri); scheme == amqp || err != nil || written.Port() == "" {
		e.Port = defaultPort
		if e.TLS != nil {
			e.Port = defaultTLSPort
		}
	}
	return e, nil
}

// badURI does not repeat the URL, which may have a password.
func badURI() error {
	return engine.ConfigurationError(rabbit.ReasonBadDSN, fmt.Errorf("%s is not a URL of RabbitMQ's streams: "+
		"expected rabbitmq-stream://user:password@host:5552/vhost, or rabbitmq-stream+tls://, "+
		"with reserved characters in user, password and vhost percent-encoded (/ is %%2F)", uriSetting))
}

// redact returns the URL of an address for logs: without its password.
func redact(e rabbit.Endpoint, address string) string {
	scheme, vhost := "rabbitmq-stream", ""
	if e.TLS != nil {
		scheme += "+tls"
	}
	if e.VHost != "/" {
		vhost = url.PathEscape(e.VHost)
	}
	return scheme + "://" + e.User + ":***@" + address + "/" + vhost
}

// Redact returns a URL for logs, without its password.
func Redact(uri string) string {
	e, err := parse(uri)
	if err != nil {
		return "(unreadable URL)"
	}
	return redact(e, addressOf(e.Host, e.Port))
}

func addressOf(host string, port int) string {
	return net.JoinHostPort(cmp.Or(host, "localhost"), strconv.Itoa(port))
}
