package rediscache

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// cure adds to an error what to do about it, where that is known.
func (c *Cache) cure(err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []func(error) string{refusal, untrusted, c.misplaced} {
		if do := known(err); do != "" {
			return fmt.Errorf("redis: %w; %s", err, do)
		}
	}
	return fmt.Errorf("redis: %w", err)
}

// refusal knows what a server says no to.
func refusal(err error) string {
	_, moved := redis.IsMovedError(err)
	switch {
	case redis.IsAuthError(err):
		return "set the right user and password in REDIS_URL"
	case redis.IsPermissionError(err):
		return "the user needs GET, MGET and SET on embeddings:*, and SELECT for a database number"
	case moved:
		return "it is a cluster: add ?addr=host:port to REDIS_URL, if need be the same address again"
	default:
		return ""
	}
}

// untrusted knows what ends a TLS handshake.
func untrusted(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "set SSL_CERT_FILE to the PEM file of the authority that signed it"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "REDIS_URL must name the host as its certificate does"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the server needs another certificate"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "this port does not take TLS: name its TLS port in REDIS_URL, or write redis://"
	}
	// The peer's alert is of no type that could be asked for.
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return refusedClient
	}
	return ""
}

const refusedClient = "the server refuses the TLS handshake: it must not ask for client certificates " +
	"(tls-auth-clients no, or optional) and must take TLS 1.2 or newer"

// misplaced knows what a server that never answered makes one think of. Redis
// itself never says that it expected TLS, or did not.
func (c *Cache) misplaced(err error) string {
	hungUp := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case c.where.sentinel != nil && errors.Is(err, redis.Nil):
		return "master_name in REDIS_URL must be the name that the sentinels monitor"
	case c.answered.Load():
		return ""
	case c.where.tls() && errors.Is(err, context.DeadlineExceeded):
		return "if it never answers, see that this port takes TLS, or write redis:// in REDIS_URL"
	case c.where.tls() && hungUp:
		return refusedClient // its alert was lost with the connection
	case hungUp:
		return "if this port takes TLS, write rediss:// in REDIS_URL"
	default:
		return ""
	}
}
