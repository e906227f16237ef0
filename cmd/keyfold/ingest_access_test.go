package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/source/outbox"
)

const (
	oldToken = "old-token-0123456789abcdef"
	newToken = "new-token-0123456789abcdef"
)

// Tokens of a file: without one 401, and a token that takes another's place is
// known without a restart, the old one no more.
//
// Promise(security/rotation): Changed tokens and certificates are known without a restart.
// Promise(security/token-file)
func TestIngestTokensRotate(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	file := filepath.Join(t.TempDir(), "tokens")
	write(t, file, oldToken+"\n")
	api, stop := s.spawn(t, "ingest", "--http-addr=127.0.0.1:0", "--http-token-file", file)
	defer stop()
	api.ready()
	try := func(token string) int {
		a, err := send(api.url(), token, event(1, profile.ProductView, 1, time.Now().Add(-time.Hour), "t"))
		must.OK(t, err)
		return a.Code
	}
	for token, want := range map[string]int{"": 401, newToken: 401, oldToken: 202, oldToken + "x": 401} {
		if code := try(token); code != want {
			t.Errorf("with the token %q: %d, want %d", token, code, want)
		}
	}
	write(t, file, "# both for a while\n"+oldToken+"\n"+newToken+"\n")
	turns := func(token string, want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%q is answered with %d", token, want), func() error {
			if code := try(token); code != want {
				return fmt.Errorf("%d", code)
			}
			return nil
		})
	}
	turns(newToken, 202)
	if code := try(oldToken); code != 202 {
		t.Errorf("the old token beside the new one: %d", code)
	}
	write(t, file, newToken+"\n")
	turns(oldToken, 401)
	if code := try(newToken); code != 202 {
		t.Errorf("the new token: %d", code)
	}
	// Without the file no token of it is good; the readiness and a metric say so.
	must.OK(t, os.Remove(file))
	turns(newToken, http.StatusServiceUnavailable)
	if code, body := api.get("/readyz"); code != http.StatusOK || !strings.Contains(body, "HTTP_TOKEN_FILE") {
		t.Errorf("without the file the readiness is %d %q", code, body)
	}
	if n := api.metric("keyfold_ingest_token_file_faulty"); n != 1 {
		t.Errorf("without the file the metric is %d", n)
	}
	write(t, file, "")
	turns(newToken, http.StatusUnauthorized)
	write(t, file, newToken+"\n")
	turns(newToken, http.StatusAccepted)
	if code, body := api.get("/readyz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("with the file back the readiness is %d %q", code, body)
	}
	if log := api.log.String(); strings.Contains(log, oldToken) || strings.Contains(log, newToken) {
		t.Error("a token is in the log")
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
}

// What is not to be started is refused with the cure and without a secret.
//
// Promise(security/rotation)
func TestIngestRefusesToStart(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	missing := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--http-addr=0.0.0.0:0"}, "HTTP_TOKEN_FILE"},
		{[]string{"--http-addr=nowhere"}, "host:port"},
		{[]string{"--http-addr=127.0.0.1:0", "--http-tokens=short-secret"}, "at least 16"},
		{[]string{"--http-addr=127.0.0.1:0", "--http-token-file=" + missing}, "HTTP_TOKEN_FILE"},
		{[]string{"--http-addr=127.0.0.1:0", "--http-tls-cert=" + missing}, "HTTP_TLS_KEY"},
		{[]string{"--http-addr=127.0.0.1:0", "--http-tls-cert=" + missing, "--http-tls-key=" + missing}, "HTTP_TLS_CERT"},
		{[]string{"--http-addr=127.0.0.1:0", "--http-rate=many"}, "HTTP_RATE"},
	} {
		code, _, errs := s.run(t, append([]string{"ingest"}, c.args...)...)
		if code != cli.ExitUsage || !strings.Contains(errs, c.says) || strings.Contains(errs, "short-secret") {
			t.Errorf("%v: exit code %d, want one that says %q:\n%s", c.args, code, c.says, errs)
		}
	}
	// Allowed when it is meant.
	api := s.service(t, "ingest", "--http-addr=0.0.0.0:0", "--insecure").ready()
	_, port, _ := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(api.url(), "http://"), "/v1/events"))
	a, err := send("http://127.0.0.1:"+port+"/v1/events", "", event(1, profile.ProductView, 1, time.Now().Add(-time.Hour), "t"))
	if err != nil || a.Code != http.StatusAccepted {
		t.Errorf("%d %s %v", a.Code, a.Text, err)
	}
}

// TLS from files, and a certificate that takes another's place.
//
// Promise(security/rotation)
func TestIngestTLS(t *testing.T) {
	s := newShop(t, outbox.SQLite)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := certify(t, cert, key)
	api := s.service(t, "ingest", "--http-addr=127.0.0.1:0", "--http-tls-cert", cert, "--http-tls-key", key).ready()
	if !strings.HasPrefix(api.url(), "https://") {
		t.Fatalf("the API is at %s", api.url())
	}
	post := func(trusted *x509.CertPool) error {
		client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted}}}
		resp, err := client.Post(api.url(), "application/json", bytes.NewReader(event(1, profile.ProductView, 1, time.Now().Add(-time.Hour), "t")))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	}
	if err := post(first); err != nil {
		t.Error(err)
	}
	second := certify(t, cert, key)
	eventually(t, "the new certificate is shown", func() error { return post(second) })
	if post(first) == nil {
		t.Error("the old certificate is still shown")
	}
}

// certify writes a new certificate for 127.0.0.1 and returns what trusts it.
func certify(t *testing.T, cert, key string) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), cryptorand.Reader)
	must.OK(t, err)
	serial, err := cryptorand.Int(cryptorand.Reader, big.NewInt(1<<62))
	must.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(cryptorand.Reader, template, template, &private.PublicKey, private)
	must.OK(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must.OK(t, err)
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	parsed, err := x509.ParseCertificate(der)
	must.OK(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}
