package redistest

import (
	"crypto/x509"
	"testing"

	"keyfold/internal/testserver/authoritytest"
)

// Authority is one that issues certificates for Redis.
type Authority struct{ *authoritytest.Authority }

// NewAuthority makes an authority that lasts as long as the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	return &Authority{authoritytest.New(t)}
}

// Issue returns the settings by which a server presents a certificate of
// [authoritytest.Authority.Issue]. It asks clients for none.
func (a *Authority) Issue(t testing.TB, change func(*x509.Certificate)) []string {
	t.Helper()
	certificate, key := a.Authority.Issue(t, change)
	return []string{
		"--tls-cert-file", certificate, "--tls-key-file", key,
		"--tls-ca-cert-file", a.File(), "--tls-auth-clients", "no",
	}
}
