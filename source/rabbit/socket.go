package rabbit

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// maxCorked bounds what a corked socket gathers before it writes.
const maxCorked = 64 << 10

// Socket is a network connection whose writes cannot block for ever, and which
// can gather them: the library makes one system call per acknowledgement and
// per message, and they are small.
type Socket struct {
	net.Conn
	writeTimeout time.Duration

	writing sync.Mutex // guards the fields below
	corked  int
	buffer  []byte
	broken  error // of a gathered write; answers the next one

	silence time.Duration // the longest between two reads from a broker that lives
	reading sync.Mutex
	heard   time.Time // when the last Read ended
	frozen  bool      // see Frozen
	failed  error     // what ended the connection
}

func newSocket(c net.Conn, timing Timing) *Socket {
	return &Socket{Conn: c, writeTimeout: timing.Write, silence: heartbeatsMissed * timing.Heartbeat, heard: time.Now()}
}

// heartbeatsMissed is after how many heartbeats in vain the library gives a connection up,
// and a broker the latest.
const heartbeatsMissed = 3

// ErrFrozen ends a connection whose process was stopped, or whose machine slept, for
// longer than the broker waits: what it had sent before is another consumer's by now.
var ErrFrozen = errors.New("rabbitmq: the process did not run for longer than its heartbeats last; the broker has given the connection up")

// ErrSilent ends a connection at which the broker left a request without an answer. It still
// sends heartbeats where most nodes of its cluster are down.
var ErrSilent = errors.New("the broker left a request without an answer")

// Frozen reports whether the process did not run for so long. It stays so.
func (s *Socket) Frozen(now time.Time) bool {
	s.reading.Lock()
	defer s.reading.Unlock()
	if max(now.Sub(s.heard), now.Round(0).Sub(s.heard.Round(0))) > s.silence {
		s.frozen, s.failed = true, cmp.Or(s.failed, ErrFrozen)
	}
	return s.frozen
}

// Read remembers how the connection ended. After a freeze it returns nothing that came
// before.
func (s *Socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if now := time.Now(); err == nil && s.Frozen(now) {
		s.Abort()
		return 0, ErrFrozen
	} else if err == nil {
		s.reading.Lock()
		s.heard = now
		s.reading.Unlock()
	}
	if err != nil {
		s.fail(err)
		if cause := s.failure(); errors.Is(cause, ErrSilent) || errors.Is(cause, ErrFrozen) {
			return n, cause // and not that the socket is closed, which the library would pass on
		}
	}
	return n, err
}

// fail notes the first error.
func (s *Socket) fail(err error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.failed = cmp.Or(s.failed, err)
}

// failure returns what ended the connection, nil while nothing has.
func (s *Socket) failure() error {
	s.reading.Lock()
	defer s.reading.Unlock()
	return s.failed
}

// Write sends b, or keeps it while the socket is corked.
func (s *Socket) Write(b []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.broken != nil {
		return 0, s.broken
	}
	if s.corked == 0 && len(s.buffer) == 0 {
		return s.send(b)
	}
	s.buffer = append(s.buffer, b...)
	if s.corked > 0 && len(s.buffer) < maxCorked {
		return len(b), nil
	}
	if err := s.flush(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Cork gathers writes until as many calls of uncork.
func (s *Socket) Cork() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.corked++
}

// Uncork sends what was gathered. An error closes the connection, as the
// library was told that its write went well.
func (s *Socket) Uncork() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.corked--
	if s.corked > 0 {
		return
	}
	if err := s.flush(); err != nil {
		s.Close()
	}
}

// flush sends the gathered bytes. The caller holds writing.
func (s *Socket) flush() error {
	if len(s.buffer) == 0 {
		return s.broken
	}
	_, err := s.send(s.buffer)
	s.buffer = s.buffer[:0]
	if err != nil && s.broken == nil {
		s.broken = err
	}
	return err
}

func (s *Socket) send(b []byte) (int, error) {
	if err := s.SetWriteDeadline(time.Now().Add(s.writeTimeout)); err != nil {
		return 0, err
	}
	return s.Conn.Write(b)
}

// Bound ends the connection with [ErrSilent] unless release is called within d: the library
// waits for answers without a limit.
func (s *Socket) Bound(d time.Duration) (release func() bool) {
	return time.AfterFunc(d, s.silent).Stop
}

// BoundBy ends the connection when ctx ends, and with [ErrSilent] where its time is up.
func (s *Socket) BoundBy(ctx context.Context) (release func() bool) {
	return context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.silent()
		}
		s.Abort()
	})
}

// silent ends the connection. Limits that passed while the process did not run say nothing of
// the broker.
func (s *Socket) silent() {
	if !s.Frozen(time.Now()) {
		s.fail(ErrSilent)
	}
	s.Abort()
}

// Abort closes the connection without a word to the broker.
func (s *Socket) Abort() { s.Close() }
