package redistest_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServerIsKilledAndComesBack(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "SET", "k", "v")
	s.Kill()
	if conn, err := net.Dial("tcp", s.Address()); err == nil {
		conn.Close()
		t.Fatal("a killed server takes connections")
	}
	s.Restart(t)
	if got := s.Do(t, "GET", "k"); got != "v" {
		t.Errorf("after a restart it says %q", got)
	}
}

func TestFrozenServerSaysNothingUntilThawed(t *testing.T) {
	s := redistest.Start(t)
	s.Freeze(t)
	conn, err := net.Dial("tcp", s.Address())
	must.OK(t, err)
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 7)
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conn.Read(answer); err == nil {
		t.Fatalf("a frozen server said %q", answer[:n])
	}
	s.Thaw(t)
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := conn.Read(answer); err != nil || string(answer[:n]) != "+PONG\r\n" {
		t.Fatalf("a thawed server said %q, %v", answer[:n], err)
	}
}

func TestClusterAndSentinel(t *testing.T) {
	nodes := redistest.Cluster(t, 2)
	if info := nodes[0].Do(t, "CLUSTER", "INFO"); !strings.Contains(info, "cluster_size:2") {
		t.Errorf("the cluster is\n%s", info)
	}
	master := redistest.Start(t)
	if got := master.Sentinel(t, "main").Do(t, "SENTINEL", "CKQUORUM", "main"); !strings.HasPrefix(got, "+OK 1") {
		t.Errorf("the sentinel says %q", got)
	}
}
