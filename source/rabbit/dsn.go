package rabbit

import (
	"errors"
	"net"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// ReasonBadDSN is the reason of a RABBITMQ_DSN that cannot be read.
const ReasonBadDSN = "bad_dsn"

// parseDSN reads an AMQP URL. The error does not repeat the parser's: its text
// quotes the part it stumbled over, which may be the password.
func parseDSN(dsn string) (amqp.URI, error) {
	uri, err := amqp.ParseURI(dsn)
	if err != nil || ambiguous(dsn) {
		return uri, engine.ConfigurationError(ReasonBadDSN, errors.New(
			"RABBITMQ_DSN is not an AMQP URL: expected amqp://user:password@host:5672/vhost, "+
				"with reserved characters in user, password and vhost percent-encoded (/ is %2F)"))
	}
	return uri, nil
}

// ambiguous reports an at sign behind the host, or several of them: a password
// with an unescaped slash is read as a host and a virtual host, and would be
// printed as such.
func ambiguous(dsn string) bool {
	_, rest, _ := strings.Cut(dsn, "://")
	authority, path, _ := strings.Cut(rest, "/")
	return strings.Contains(path, "@") || strings.Count(authority, "@") > 1
}

// Redact returns a DSN for logs: without its password.
func Redact(dsn string) string {
	uri, err := amqp.ParseURI(dsn)
	if err != nil || ambiguous(dsn) {
		return "(unreadable DSN)"
	}
	return uri.Scheme + "://" + uri.Username + ":***@" +
		net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)) + "/" + uri.Vhost
}
