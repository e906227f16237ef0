package causes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/authoritytest"
	"keyfold/internal/testserver/must"
)

// Errors of the system are known in the chains that drivers wrap them in.
//
// Promise(security/causes)
func TestFindSystemErrors(t *testing.T) {
	dial := func(number syscall.Errno) error {
		return fmt.Errorf("driver: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", number)})
	}
	for _, x := range []struct {
		err  error
		want ID
	}{
		{dial(syscall.ECONNREFUSED), Refused},
		{dial(syscall.EHOSTUNREACH), NoAnswer},
		{dial(syscall.ECONNRESET), Lost},
		{dial(syscall.EMFILE), Files},
		{&os.PathError{Op: "write", Err: syscall.ENOSPC}, Disk},
		{fmt.Errorf("driver: %w", &net.DNSError{Name: "mongo.shop", Err: "no such host", IsNotFound: true}), Unresolved},
		{context.DeadlineExceeded, NoAnswer},
		{os.ErrDeadlineExceeded, NoAnswer},
		{io.ErrUnexpectedEOF, Lost},
		{errors.New("odd"), ""},
		{context.Canceled, ""},
		{nil, ""},
	} {
		if got := Find(x.err); got != x.want {
			t.Errorf("%v: %q, want %q", x.err, got, x.want)
		}
	}
}

// What ends a real handshake is known.
//
// Promise(security/causes)
func TestFindTLS(t *testing.T) {
	authority := authoritytest.New(t)
	roots := x509.NewCertPool()
	text, err := os.ReadFile(authority.File())
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	wantsClient := authority.TLS(t, nil)
	wantsClient.ClientAuth = tls.RequireAnyClientCert
	client := authority.TLS(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })
	for want, x := range map[ID]struct{ server, client *tls.Config }{
		Expired:          {authority.TLS(t, authoritytest.Expired), &tls.Config{RootCAs: roots}},
		OtherHost:        {authority.TLS(t, authoritytest.Elsewhere), &tls.Config{RootCAs: roots}},
		UnknownAuthority: {authority.TLS(t, nil), &tls.Config{RootCAs: x509.NewCertPool()}},
		Unfit:            {client, &tls.Config{RootCAs: roots}},
		Handshake:        {wantsClient, &tls.Config{RootCAs: roots}},
		NoTLS:            {nil, &tls.Config{RootCAs: roots}},
		"":               {authority.TLS(t, nil), &tls.Config{RootCAs: roots}},
	} {
		x.client.ServerName = "localhost"
		if got := Find(shakeHands(t, x.server, x.client)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// shakeHands returns the error of a client. A server without a configuration speaks no TLS.
func shakeHands(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if server != nil {
			conn = tls.Server(conn, server)
		}
		if _, err := io.WriteString(conn, "-ERR this is no TLS\r\n"); err == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 1)) // with TLS 1.3 a refusal comes behind the handshake
	return err
}

// The text, the kind and the reason are the table's.
//
// Promise(security/causes)
func TestExplained(t *testing.T) {
	odd := errors.New("odd")
	err := Explain(MongoDB, Expired, odd)
	const text = "the certificate of MongoDB has expired, or is not valid yet; give the server a certificate that is valid today, " +
		"and check that the clocks of both machines are right (odd) [docs/RUNBOOK.md#certificate-expired]"
	if err.Error() != text || engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != "certificate_expired" || !errors.Is(err, odd) {
		t.Errorf("%v, %v, %s", err, engine.KindOf(err), engine.ReasonOf(err))
	}
	rest, section := Cut("store: away: " + text)
	if section != "certificate-expired" || rest != "store: away: "+strings.TrimSuffix(text, " [docs/RUNBOOK.md#certificate-expired]") {
		t.Errorf("%q, %q", rest, section)
	}
	if rest, section := Cut("odd [text]"); rest != "odd [text]" || section != "" {
		t.Errorf("%q, %q", rest, section)
	}
	err = Blocked("low on memory", odd)
	if !strings.HasPrefix(err.Error(), "RabbitMQ blocks publishing: low on memory; ") || engine.KindOf(err) != engine.Transient {
		t.Error(err)
	}
	if got := Hint(fmt.Errorf("relay: %w", err), "it goes on"); !strings.HasSuffix(got, "; it goes on [docs/RUNBOOK.md#publishing-blocked]") {
		t.Error(got)
	}
	if got := Hint(engine.ConfigurationError("x", odd), "it goes on"); got != "do what the error says; it goes on" {
		t.Error(got)
	}
}

// Only what has no cure is given one.
func TestEnsure(t *testing.T) {
	refused := fmt.Errorf("driver: %w", syscall.ECONNREFUSED)
	for _, left := range []error{nil, context.Canceled, engine.ConfigurationError("x", errors.New("y")), Explain(Redis, Memory, refused)} {
		if got := Ensure(Redis, left); got != left { //nolint:errorlint // the same value
			t.Errorf("%v became %v", left, got)
		}
	}
	if got := Ensure(Redis, refused); engine.ReasonOf(got) != Refused.Reason() {
		t.Error(got)
	}
	if got := Ensure(Redis, errors.New("odd")); engine.ReasonOf(got) != Other.Reason() || !errors.Is(Known(Redis, refused), syscall.ECONNREFUSED) {
		t.Error(got)
	}
	if got := Named("NOTIFY_ADMIN_URL", Explain(Ledger, Refused, refused)); !strings.Contains(got.Error(), "NOTIFY_ADMIN_URL has its host") {
		t.Error(got)
	}
}
