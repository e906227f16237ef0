// Package authoritytest signs certificates for the servers of tests.
package authoritytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// Authority signs certificates, and no system trusts it.
type Authority struct {
	dir         string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	issued      int64
}

// New makes an authority that lasts as long as the test.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir(), key: newKey(t)}
	template := a.template("keyfold test authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	signed, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	must.OK(t, err)
	if a.certificate, err = x509.ParseCertificate(signed); err != nil {
		t.Fatal(err)
	}
	write(t, a.File(), "CERTIFICATE", signed)
	return a
}

// File is the PEM file of the authority's own certificate.
func (a *Authority) File() string { return filepath.Join(a.dir, "authority.pem") }

// Issue signs a server's certificate for localhost and 127.0.0.1, as change leaves it where
// there is one, and returns the PEM files of the certificate and of its key. Both are their
// owner's alone.
func (a *Authority) Issue(t testing.TB, change func(*x509.Certificate)) (certificate, key string) {
	t.Helper()
	template := a.template("keyfold test server")
	template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if change != nil {
		change(template)
	}
	secret := newKey(t)
	signed, err := x509.CreateCertificate(rand.Reader, template, a.certificate, secret.Public(), a.key)
	must.OK(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(secret)
	must.OK(t, err)
	file := filepath.Join(a.dir, "server"+strconv.FormatInt(a.issued, 10))
	write(t, file+".pem", "CERTIFICATE", signed)
	write(t, file+".key", "PRIVATE KEY", text)
	return file + ".pem", file + ".key"
}

// Expired and Elsewhere are changes for [Authority.Issue]: a certificate that was valid
// until a minute ago, and one of another host.
func Expired(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }

// Elsewhere see [Expired].
func Elsewhere(c *x509.Certificate) { c.DNSNames, c.IPAddresses = []string{"elsewhere"}, nil }

// TLS is the configuration of a server with such a certificate.
func (a *Authority) TLS(t testing.TB, change func(*x509.Certificate)) *tls.Config {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(a.Issue(t, change))
	must.OK(t, err)
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// template is a certificate that is valid now, under the next serial number.
func (a *Authority) template(name string) *x509.Certificate {
	a.issued++
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.issued), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	return key
}

func write(t testing.TB, file, kind string, bytes []byte) {
	t.Helper()
	must.OK(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
}
