package main

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

// A connection to the admin endpoint over which nothing was asked is no failure of
// the stop: browsers open some in advance, and a probe may hang.
//
// Promise(shutdown/in-order)
func TestStopWithASilentAdminClient(t *testing.T) {
	s := newStack(t)
	d := s.work(t, quick).ready()
	conn, err := net.Dial("tcp", adminAddr.FindStringSubmatch(d.log.String())[1])
	must.OK(t, err)
	defer conn.Close()
	d.get("/livez") // accepted behind the silent one
	if code := d.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, d.log)
	}
}

// A sender that begins a request and says nothing more is none either.
//
// Promise(shutdown/in-order)
func TestStopWithASilentSender(t *testing.T) {
	s := newStack(t)
	shop := s.with(t, "sqlite://"+t.TempDir()+"/outbox.db")
	d := shop.service(t, "ingest", "--http-addr=127.0.0.1:0", "--shutdown-timeout=6").ready()
	host, _, _ := strings.Cut(strings.TrimPrefix(d.url(), "http://"), "/")
	conn, err := net.Dial("tcp", host)
	must.OK(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
	d.accepted(event(1, profile.ProductView, 1, time.Now(), "one")) // behind the silent one
	if code := d.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, d.log)
	}
}
