package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
)

// Timing holds the time limits of a connection; zero values mean the defaults.
type Timing struct {
	// Dial makes the TCP connection, within Connect; default a [net.Dialer]'s.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Heartbeat time.Duration // default 10 s; a silent peer is noticed within 1.5 of them
	Connect   time.Duration // TCP, TLS and AMQP handshake; default 10 s
	Write     time.Duration // one write to the socket; default 10 s
	// Backoff bounds the wait before a new connection, doubled from Min to Max,
	// with jitter; default 0.5 s and 5 s.
	BackoffMin, BackoffMax time.Duration
	// Poll is how often workers that share partitions count each other; default 1 s.
	Poll time.Duration
}

// OrDefaults returns the limits with the defaults in place of zero values.
func (t Timing) OrDefaults() Timing {
	if t.Dial == nil {
		t.Dial = (&net.Dialer{}).DialContext
	}
	return Timing{
		Dial:       t.Dial,
		Heartbeat:  cmp.Or(t.Heartbeat, 10*time.Second),
		Connect:    cmp.Or(t.Connect, 10*time.Second),
		Write:      cmp.Or(t.Write, 10*time.Second),
		BackoffMin: cmp.Or(t.BackoffMin, 500*time.Millisecond),
		BackoffMax: cmp.Or(t.BackoffMax, 5*time.Second),
		Poll:       cmp.Or(t.Poll, time.Second),
	}
}

// maxFrame is the largest frame that is taken. The broker's frame_max, 128 KiB by default,
// is the limit below it: an operator can raise that for a message whose headers fill a frame.
const maxFrame = 1 << 20

// Dialer makes connections to one broker.
type Dialer struct {
	DSN    string
	Name   string // of the connection
	Timing Timing
}

// Dial opens a connection, or fails within the connect timeout, sooner if ctx
// ends.
func (d Dialer) Dial(ctx context.Context) (*amqp.Connection, *Socket, error) {
	uri, err := parseDSN(d.DSN)
	if err != nil {
		return nil, nil, err
	}
	if err := checkExternal(uri); err != nil {
		return nil, nil, err
	}
	doing := "connect to " + Redact(d.DSN)
	limit := d.Timing.Connect
	if uri.ConnectionTimeout > 0 {
		limit = time.Duration(uri.ConnectionTimeout) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	var s *Socket
	// The library's handshake knows no context: what ends it is its socket.
	var release func() bool
	conn, err := amqp.DialConfig(d.DSN, amqp.Config{
		FrameSize:  maxFrame,
		Heartbeat:  d.Timing.Heartbeat,
		Properties: d.properties(),
		Dial: func(network, addr string) (net.Conn, error) {
			c, err := d.Timing.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			s = newSocket(c, d.Timing)
			release = context.AfterFunc(ctx, s.Abort)
			return s, nil
		},
	})
	if release != nil {
		release()
	}
	if err != nil {
		if s != nil {
			err = handshakeError(ctx, err, s)
			s.Abort()
		}
		if external(uri) {
			err = fmt.Errorf("%w: %w", ErrExternal, err)
		}
		return nil, nil, Fault(doing, err)
	}
	return conn, s, nil
}

func (d Dialer) properties() amqp.Table {
	properties := amqp.NewConnectionProperties()
	properties["product"] = "keyfold"
	properties.SetClientConnectionName(d.Name)
	return properties
}

// handshakeError tells a refusal from an accident. The library takes every
// socket that fails during the handshake for refused credentials; a broker that
// does refuse them closes the socket. So does one that dies, which is why
// [consume.Consumer.Run] wants to be refused more than once.
func handshakeError(ctx context.Context, err error, s *Socket) error {
	if ctx.Err() != nil {
		return fmt.Errorf("handshake: %w", ctx.Err())
	}
	if e, ok := errors.AsType[*amqp.Error](err); !ok || e.Server || e == amqp.ErrSASL || !refused(e) {
		return err
	}
	if cause := s.failure(); cause != nil && !errors.Is(cause, io.EOF) && !errors.Is(cause, syscall.ECONNRESET) {
		return fmt.Errorf("handshake: %w", cause)
	}
	return err
}

// CloseBounded closes channels and their connection in order, by force when ctx
// ends: the library waits for the broker's answers without a limit.
func CloseBounded(ctx context.Context, conn *amqp.Connection, s *Socket, channels ...*amqp.Channel) {
	release := context.AfterFunc(ctx, s.Abort)
	defer release()
	for _, channel := range channels {
		_ = channel.Close()
	}
	// What is lost by an unclean end is the broker's to take back.
	_ = conn.Close()
}

// ReasonBadDSN is the reason of a RABBITMQ_DSN that cannot be read.
const ReasonBadDSN = "bad_dsn"

// parseDSN reads an AMQP URL. The error does not repeat the parser's: its text
// quotes the part it stumbled over, which may be the password.
func parseDSN(dsn string) (amqp.URI, error) {
	uri, err := amqp.ParseURI(dsn)
	if err != nil || ambiguous(dsn) {
		return uri, engine.ConfigurationError(ReasonBadDSN, fmt.Errorf(
			"%s is not an AMQP URL: expected amqp://user:password@host:5672/vhost, "+
				"with reserved characters in user, password and vhost percent-encoded (/ is %%2F)", dsnSetting))
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
	vhost := ""
	if uri.Vhost != "/" { // the default, which DSNs leave out
		vhost = url.PathEscape(uri.Vhost)
	}
	return uri.Scheme + "://" + uri.Username + ":***@" + net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)) + "/" + vhost
}

// Account returns the user, the password and the virtual host of a DSN.
func Account(dsn string) (user, password, vhost string, err error) {
	uri, err := parseDSN(dsn)
	return uri.Username, uri.Password, uri.Vhost, err
}
