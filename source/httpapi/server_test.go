package httpapi

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// onLoopback returns settings for a test: a free port, no bounds.
func onLoopback() Config {
	c := DefaultConfig()
	c.Addr, c.Total, c.Sender, c.ReloadInterval = "127.0.0.1:0", Rate{}, Rate{}, 0
	return c
}

func newTestServer(t *testing.T, c Config, app *memory) *Server {
	t.Helper()
	s, err := NewServer(c, newTestHandler(app))
	must.OK(t, err)
	return s
}

// Promise(security/foreign-hosts): A request under a foreign host's name gets 403 from API and
// `/metrics`; under Docker Compose the API asks for a generated token.
func TestForeignHosts(t *testing.T) {
	s := newTestServer(t, onLoopback(), newMemory())
	for host, want := range map[string]int{
		"127.0.0.1:8080": 202, "localhost": 202, "localhost:80": 202, "[::1]:8080": 202, "[::1]": 202, "LocalHost:8080": 202,
		"shop.example": 403, "shop.example:8080": 403, "": 403, "127.0.0.1.nip.io:8080": 403, "localhost.evil.com": 403, "10.0.0.1:8080": 403, "0.0.0.0:80": 403,
	} {
		r := request(http.MethodPost, "/v1/events", asJSON, strings.NewReader(view(1)))
		r.Host = host
		if w, _ := serve(t, s, r); w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}

// listen runs the server until the test's end.
func listen(t *testing.T, s *Server) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-ended
	})
	return l.Addr().String()
}

// serveOn runs the server with a short time for bodies.
func serveOn(t *testing.T, app *memory, bodyTime time.Duration) (addr string) {
	t.Helper()
	c := onLoopback()
	c.Timeouts.Body, c.Timeouts.Answer = bodyTime, bodyTime+time.Minute
	return listen(t, newTestServer(t, c, app))
}

// Clients that send a byte now and then, or nothing at all, are cut off at
// every stage of a connection.
func TestSlowClientsAreCutOff(t *testing.T) {
	c := onLoopback()
	c.Timeouts = Timeouts{Header: 100 * time.Millisecond, Body: 200 * time.Millisecond, Answer: 400 * time.Millisecond, Idle: 100 * time.Millisecond}
	m := newMemory()
	addr := listen(t, newTestServer(t, c, m))
	for _, start := range []string{"", "POST /v1/events HTTP/1.1\r\nHost: loc", head, head + "Content-Length: 1000000\r\n\r\n{", head + "Transfer-Encoding: chunked\r\n\r\n1\r\n"} {
		conn, err := net.Dial("tcp", addr)
		must.OK(t, err)
		if _, err := io.WriteString(conn, start); err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() { defer close(gone); _, _ = io.Copy(io.Discard, conn) }()
		drops := 0
		for cut := false; !cut; drops++ { // until the server closes
			_, err := io.WriteString(conn, "x")
			select {
			case <-gone:
				cut = true
			case <-time.After(10 * time.Millisecond):
				cut = err != nil || drops > 3000
			}
		}
		if drops > 3000 {
			t.Errorf("%q may go on for ever", start)
		}
		_ = conn.Close()
		<-gone
	}
	if m.len() != 0 {
		t.Errorf("%d events were stored", m.len())
	}
}

// exchange writes text to addr and returns the status line's code.
func exchange(t *testing.T, addr, text string, closeWrite bool) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must.OK(t, err)
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if closeWrite {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	must.OK(t, err)
	_ = response.Body.Close()
	return response.StatusCode
}

const head = "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"

func TestSlowAndBrokenBodies(t *testing.T) {
	m := newMemory()
	slow := serveOn(t, m, 50*time.Millisecond)
	if status := exchange(t, slow, head+"Content-Length: 500\r\n\r\n"+view(1), false); status != http.StatusRequestTimeout {
		t.Errorf("a body that does not come: %d", status)
	}
	addr := serveOn(t, m, time.Minute)
	if status := exchange(t, addr, head+"Content-Length: 500\r\n\r\n"+view(1), true); status != http.StatusBadRequest {
		t.Errorf("a body that ends early: %d", status)
	}
	if status := exchange(t, addr, head+"Transfer-Encoding: chunked\r\n\r\nzz\r\n", false); status != http.StatusBadRequest {
		t.Errorf("broken chunks: %d", status)
	}
	if status := exchange(t, addr, head+"Content-Length: 999999999\r\n\r\n", false); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a huge announcement: %d", status)
	}
	if m.len() != 0 {
		t.Errorf("%d events of cut bodies were stored", m.len())
	}
}

// dribble gives one byte per read.
type dribble struct{ r io.Reader }

func (d dribble) Read(p []byte) (int, error) { return d.r.Read(p[:min(len(p), 1)]) }

func TestDribblingBody(t *testing.T) {
	m := newMemory()
	body := "[" + strings.Join(views(0, 500), ",") + "]"
	w, answer := serve(t, newTestHandler(m), request(http.MethodPost, "/v1/events", asJSON, dribble{strings.NewReader(body)}))
	if w.Code != http.StatusAccepted || answer.Accepted != 500 {
		t.Errorf("%d, %d accepted", w.Code, answer.Accepted)
	}
}

// What is no HTTP is refused or cut off.
//
// Promise(outbox/hostile)
func TestBrokenHTTP(t *testing.T) {
	m := newMemory()
	addr := listen(t, newTestServer(t, onLoopback(), m))
	for _, text := range []string{
		"\r\n\r\n", "GARBAGE\r\n\r\n", "POST\r\n\r\n", "POST /v1/events\r\n\r\n", "POST /v1/events HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		head + "Content-Length: -1\r\n\r\n", head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", head + "Content-Length: 0x10\r\n\r\n",
		head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /v1/events",
		head + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", head + "Bad Header: x\r\n\r\n",
		"POST /v1/events HTTP/1.1\r\n\r\n", head + "X: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n", head + "Content-Length: 3\r\n\r\n[]\n" + "GET / HTTP/1.1\r\n\r\n",
	} {
		c, err := net.Dial("tcp", addr)
		must.OK(t, err)
		_, _ = io.WriteString(c, text) // it may be cut off while it is sent
		_ = c.(*net.TCPConn).CloseWrite()
		in := bufio.NewReader(c)
		for {
			response, err := http.ReadResponse(in, nil)
			if err != nil {
				break
			}
			if response.StatusCode >= http.StatusInternalServerError && response.StatusCode != http.StatusHTTPVersionNotSupported && response.StatusCode != http.StatusNotImplemented {
				t.Errorf("%.100q: %d", text, response.StatusCode)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		_ = c.Close()
	}
	if m.len() != 0 {
		t.Errorf("%d events were taken from what is no HTTP", m.len())
	}
}
