package sim

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// stream is one direction of a connection: what was written comes out later, in
// order. Writing never blocks.
type stream struct {
	mu       sync.Mutex
	delay    func() time.Duration // of the next write
	gathers  bool                 // what is written in one instant comes out in one
	chunks   []chunk
	last     time.Time // when the newest chunk comes out
	silence  time.Time // nothing comes out before
	ended    error     // what a reader gets when the chunks are read
	deadline time.Time
	wake     chan struct{} // closed and replaced when a reader has to look again
}

// chunk is what was written in one instant.
type chunk struct {
	at, due time.Time
	data    []byte
}

func newStream(delay func() time.Duration) *stream {
	return &stream{delay: delay, wake: make(chan struct{})}
}

// wakeReaders has readers look again. The caller holds mu.
func (s *stream) wakeReaders() {
	close(s.wake)
	s.wake = make(chan struct{})
}

func (s *stream) write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return 0, errCut
	}
	now := time.Now()
	if n := len(s.chunks); s.gathers && n > 0 && s.chunks[n-1].at.Equal(now) {
		s.chunks[n-1].data = inOrder(append(s.chunks[n-1].data, b...))
		return len(b), nil
	}
	due := now.Add(s.delay())
	if !due.After(s.last) {
		due = s.last.Add(time.Nanosecond)
	}
	s.last = due
	data := slices.Clone(b)
	if s.gathers {
		data = inOrder(data)
	}
	s.chunks = append(s.chunks, chunk{now, due, data})
	if len(s.chunks) == 1 {
		s.wakeReaders()
	}
	return len(b), nil
}

// inOrder sorts frames by their channel. Channels that write in one instant do so
// in an order that only the Go scheduler knows, and a replay may not; nothing says
// which of them is first.
func inOrder(data []byte) []byte {
	type span struct {
		channel uint16
		bytes   []byte
	}
	var spans []span
	sorted := true
	for rest := data; len(rest) > 0; {
		if len(rest) < 8 || rest[0] > frameHeartbeat {
			return data // the greeting
		}
		size := 8 + int(binary.BigEndian.Uint32(rest[3:]))
		if size > len(rest) {
			return data
		}
		s := span{binary.BigEndian.Uint16(rest[1:]), rest[:size]}
		sorted = sorted && (len(spans) == 0 || spans[len(spans)-1].channel <= s.channel)
		spans, rest = append(spans, s), rest[size:]
	}
	if sorted {
		return data
	}
	slices.SortStableFunc(spans, func(a, b span) int { return int(a.channel) - int(b.channel) })
	ordered := make([]byte, 0, len(data))
	for _, s := range spans {
		ordered = append(ordered, s.bytes...)
	}
	return ordered
}

// read waits for the next bytes.
func (s *stream) read(b []byte) (int, error) {
	for {
		s.mu.Lock()
		n, at, err := s.ready(b, time.Now())
		wake := s.wake
		s.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		if at.IsZero() {
			<-wake
			continue
		}
		t := time.NewTimer(time.Until(at))
		select {
		case <-wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// ready copies what has come out, or says when to look again, zero for not before the
// stream is written to or ends. The caller holds mu.
func (s *stream) ready(b []byte, now time.Time) (n int, at time.Time, err error) {
	if !s.deadline.IsZero() && !now.Before(s.deadline) {
		return 0, at, os.ErrDeadlineExceeded
	}
	at = s.silence
	if len(s.chunks) > 0 && s.chunks[0].due.After(at) {
		at = s.chunks[0].due
	}
	if nothing := len(s.chunks) == 0 && s.ended == nil; nothing || now.Before(at) {
		if nothing || !s.deadline.IsZero() && s.deadline.Before(at) {
			at = s.deadline
		}
		return 0, at, nil
	}
	if len(s.chunks) == 0 {
		return 0, at, s.ended
	}
	head := &s.chunks[0]
	n = copy(b, head.data)
	if head.data = head.data[n:]; len(head.data) == 0 {
		s.chunks = s.chunks[1:]
	}
	return n, at, nil
}

// end lets no more be written. What is on its way still comes out, unless lost.
func (s *stream) end(err error, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended == nil {
		s.ended = err
	}
	if lost {
		s.chunks = nil
		s.silence = time.Time{}
	}
	s.wakeReaders()
}

// blackhole lets nothing out before a time.
func (s *stream) blackhole(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silence = until
	s.wakeReaders()
}

func (s *stream) setDeadline(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	s.wakeReaders()
}

var errCut = errors.New("sim: connection cut")

// wire is a connection between a worker and the broker.
type wire struct {
	purpose string
	up      *stream // to the broker
	down    *stream // to the worker
	cutting sync.Once
}

// cut ends the connection for both. lost takes with it what is on its way.
func (w *wire) cut(lost bool) {
	w.cutting.Do(func() {
		w.up.end(errCut, lost)
		w.down.end(errCut, lost)
	})
}

// blackhole makes the connection silent for both.
func (w *wire) blackhole(until time.Time) {
	w.up.blackhole(until)
	w.down.blackhole(until)
}

// socket is one end of a wire.
type socket struct {
	wire    *wire
	in, out *stream
}

var _ net.Conn = socket{}

func (s socket) Read(b []byte) (int, error)  { return s.in.read(b) }
func (s socket) Write(b []byte) (int, error) { return s.out.write(b) }

// Close ends the connection as a process's end does: what was written arrives,
// what was not read is lost.
func (s socket) Close() error {
	s.out.end(io.EOF, false)
	s.in.end(net.ErrClosed, true)
	return nil
}

func (s socket) LocalAddr() net.Addr                { return address("sim") }
func (s socket) RemoteAddr() net.Addr               { return address("sim") }
func (s socket) SetDeadline(t time.Time) error      { return s.SetReadDeadline(t) }
func (s socket) SetWriteDeadline(_ time.Time) error { return nil } // writing never blocks
func (s socket) SetReadDeadline(t time.Time) error {
	s.in.setDeadline(t)
	return nil
}

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }
