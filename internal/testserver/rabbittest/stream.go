package rabbittest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"testing"

	"keyfold/internal/testserver/process"
)

// TLSFiles are the PEM files of listeners with TLS.
type TLSFiles struct {
	Authority, Certificate, Key string
	// Accounts has the CN of a client's certificate be a user (SASL EXTERNAL). A client
	// without a certificate of the authority is refused.
	Accounts bool
}

// SharedStreams is [SharedVersion] with a broker that speaks the stream protocol too.
func SharedStreams(t testing.TB, major int) *Broker {
	t.Helper()
	if in, err := chosen(); err == nil && in.major == major {
		return Shared(t)
	}
	return sharedStreams[major](t)
}

var sharedStreams = map[int]func(testing.TB) *Broker{
	3: process.Shared(served("streams 3", version(3), launchStreams(3, nil, true))),
	4: process.Shared(served("streams 4", version(4), launchStreams(4, nil, true))),
}

// StartStreams is [StartVersion] with a broker that speaks the stream protocol too, with
// files both protocols also over TLS.
func StartStreams(t testing.TB, major int, files *TLSFiles) *Broker {
	t.Helper()
	return process.ForTest(t, launchStreams(major, files, false))
}

// LaunchStreams is [LaunchVersion] with a broker that speaks the stream protocol too.
func LaunchStreams(dir string, major int) (*Broker, error) {
	return launchStreams(major, nil, false)(dir)
}

func launchStreams(major int, files *TLSFiles, shared bool) func(dir string) (*Broker, error) {
	return func(dir string) (*Broker, error) {
		return launch(dir, options{look: version(major), timeout: patient, streams: true, files: files, shared: shared})
	}
}

// streamConfig are the stream plugin's lines of rabbitmq.conf. By default a node advertises
// its host's name.
func (b *Broker) streamConfig(o options) string {
	if !o.streams {
		return ""
	}
	text := fmt.Sprintf("stream.listeners.tcp.1 = %s\nstream.advertised_host = 127.0.0.1\nstream.advertised_port = %s\n",
		b.StreamAddress(), b.port(streamPort))
	if o.files != nil {
		text += fmt.Sprintf("stream.listeners.ssl.1 = %s\nstream.advertised_tls_port = %s\n"+
			"ssl_options.cacertfile = %s\nssl_options.certfile = %s\nssl_options.keyfile = %s\nlisteners.ssl.1 = %s\n",
			b.StreamTLSAddress(), b.port(streamTLSPort), o.files.Authority, o.files.Certificate, o.files.Key, b.TLSAddress())
	}
	if o.accounts() {
		text += "ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\nssl_cert_login_from = common_name\nauth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\n"
	}
	return text
}

// streamsAnswer reports whether the listeners of the stream protocol do.
func (b *Broker) streamsAnswer(ctx context.Context, o options) bool {
	var addresses []string
	if o.streams {
		addresses = append(addresses, b.StreamAddress())
	}
	if o.files != nil {
		addresses = append(addresses, b.StreamTLSAddress(), b.TLSAddress())
	}
	for _, address := range addresses {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return false
		}
		conn.Close()
	}
	return true
}

// StreamAddress is where the stream protocol is spoken, StreamTLSAddress where with TLS.
func (b *Broker) StreamAddress() string { return b.Ports.Address(streamPort) }

// StreamTLSAddress see [Broker.StreamAddress].
func (b *Broker) StreamTLSAddress() string { return b.Ports.Address(streamTLSPort) }

// TLSAddress is where AMQP is spoken with TLS.
func (b *Broker) TLSAddress() string { return b.Ports.Address(amqpTLSPort) }

// StreamURI returns the URL of a virtual host for the user guest behind an address of the
// stream protocol.
func StreamURI(address, vhost string) string {
	return "rabbitmq-stream://guest:guest@" + address + "/" + url.PathEscape(vhost)
}
