package main

import (
	"net"
	"testing"
)

// A connection to the admin endpoint over which nothing was asked is no failure of
// the stop: browsers open some in advance, and a probe may hang.
func TestStopWithASilentAdminClient(t *testing.T) {
	s := newStack(t)
	d := s.work(t, quick).ready()
	conn, err := net.Dial("tcp", adminAddr.FindStringSubmatch(d.log.String())[1])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	d.get("/livez") // accepted behind the silent one
	if code := d.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, d.log)
	}
}
