package causes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Find returns the cause of an error of the standard library, "" where it knows none.
func Find(err error) ID {
	if id := findTLS(err); id != "" {
		return id
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return Unresolved
	}
	for _, known := range systemErrors {
		if errors.Is(err, known.err) {
			return known.id
		}
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		return NoAnswer
	}
	return ""
}

// findTLS knows what ends a TLS handshake.
func findTLS(err error) ID {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return UnknownAuthority
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return OtherHost
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return Expired
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return Unfit
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return NoTLS
	}
	// The peer's alert is of no type that could be asked for.
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		return Handshake
	}
	return ""
}

// systemErrors are compared in this order: the first that is in an error's chain names its cause.
var systemErrors = []struct {
	err error
	id  ID
}{
	{syscall.EMFILE, Files},
	{syscall.ENFILE, Files},
	{syscall.ENOSPC, Disk},
	{syscall.EDQUOT, Disk},
	{syscall.ECONNREFUSED, Refused},
	{syscall.EHOSTUNREACH, NoAnswer},
	{syscall.ENETUNREACH, NoAnswer},
	{syscall.ETIMEDOUT, NoAnswer},
	{syscall.ECONNRESET, Lost},
	{syscall.EPIPE, Lost},
	{io.EOF, Lost},
	{io.ErrUnexpectedEOF, Lost},
	{net.ErrClosed, Lost},
	{os.ErrDeadlineExceeded, NoAnswer},
	{context.DeadlineExceeded, NoAnswer},
}
