package ingest

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestServerIsOnLoopbackOnly(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:7080", "127.9.9.9:0", "[::1]:8080", "localhost:8080", "LOCALHOST:1"} {
		s, err := NewServer(addr, http.NotFoundHandler())
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		if s.ReadHeaderTimeout == 0 || s.ReadTimeout == 0 || s.WriteTimeout <= s.ReadTimeout || s.IdleTimeout == 0 || s.MaxHeaderBytes == 0 {
			t.Errorf("%s: a limit is missing: %+v", addr, s)
		}
	}
	for _, addr := range []string{":8080", "0.0.0.0:8080", "[::]:80", "10.0.0.1:80", "example.com:80", "localhost.evil.com:80", "127.0.0.1", ""} {
		if _, err := NewServer(addr, http.NotFoundHandler()); err == nil || !strings.Contains(err.Error(), "127.0.0.1:7080") {
			t.Errorf("%q: the error must show a good address: %v", addr, err)
		}
	}
}

func TestForeignHosts(t *testing.T) {
	s, err := NewServer("127.0.0.1:0", newTestHandler(newMemory()))
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"127.0.0.1:8080": 202, "localhost": 202, "localhost:80": 202, "[::1]:8080": 202, "[::1]": 202, "LocalHost:8080": 202,
		"shop.example": 403, "shop.example:8080": 403, "": 403, "127.0.0.1.nip.io:8080": 403, "localhost.evil.com": 403, "10.0.0.1:8080": 403, "0.0.0.0:80": 403,
	} {
		r := request(http.MethodPost, "/v1/events", asJSON, strings.NewReader(view(1)))
		r.Host = host
		if w, _ := serve(t, s.Handler, r); w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
}

// serveOn runs the server with a short time for bodies.
func serveOn(t *testing.T, store Store, bodyTime time.Duration) (addr string) {
	t.Helper()
	s, err := NewServer("127.0.0.1:0", newTestHandler(store))
	if err != nil {
		t.Fatal(err)
	}
	s.ReadTimeout = bodyTime
	l, err := net.Listen("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(l) }()
	t.Cleanup(func() {
		_ = s.Shutdown(context.Background())
		<-ended
	})
	return l.Addr().String()
}

// exchange writes text to addr and returns the status line's code.
func exchange(t *testing.T, addr, text string, closeWrite bool) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if closeWrite {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
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
