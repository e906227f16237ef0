package rabbittest

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
)

func TestMain(m *testing.M) { process.Main(m) }

func TestBrokerKeepsItsDataOverAKill(t *testing.T) {
	b := Own(t) // no other test runs meanwhile
	vhost := b.VHost(t)
	conn, err := amqp.Dial(b.DSN(vhost))
	must.OK(t, err)
	ch, err := conn.Channel()
	must.OK(t, err)
	if _, err := ch.QueueDeclare("kept", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if n := b.CloseConnections(t, vhost, "no such name"); n != 0 {
		t.Errorf("%d connections of another name were closed", n)
	}
	if n := b.CloseConnections(t, vhost, ""); n != 1 {
		t.Errorf("%d connections were closed, want 1", n)
	}
	b.Flush(t)
	b.Kill()
	if b.Running() {
		t.Error("the broker runs after Kill")
	}
	if _, err := net.DialTimeout("tcp", b.Address(), time.Second); err == nil {
		t.Error("the port is open after Kill")
	}
	if l, err := net.Listen("tcp", b.Ports.Address(-1)); err == nil {
		l.Close()
		t.Error("another broker may take the ports of one that is down")
	}
	b.Restart(t)
	if conn, err = amqp.Dial(b.DSN(vhost)); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if ch, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclarePassive("kept", true, false, false, false, nil); err != nil {
		t.Errorf("the queue is gone: %v", err)
	}
}

// A test may ask for a version, whichever the other tests run on.
func TestVersions(t *testing.T) {
	for _, major := range []int{3, 4} {
		b := SharedVersion(t, major)
		version, err := b.Eval("rabbit_misc:version().")
		if err != nil || !strings.HasPrefix(version, fmt.Sprintf(`"%d.`, major)) {
			t.Errorf("RabbitMQ %d: its version is %s, %v", major, version, err)
		}
	}
	if _, err := ofVersion(2); err == nil || !strings.Contains(err.Error(), folderVariable) {
		t.Errorf("a version that is not installed: %v", err)
	}
	if _, err := ofFolder(t.TempDir()); err == nil || !strings.Contains(err.Error(), ".ci/rabbitmq4") {
		t.Errorf("a folder without RabbitMQ: %v", err)
	}
}

// A broker of later versions' ways keeps what is in its queues over a kill, and takes no
// queue that goes with a restart of its node.
func TestStrictBroker(t *testing.T) {
	t.Setenv(strictVariable, "1")
	b := StartVersion(t, 4)
	declare := func(name string, durable bool) error {
		conn, err := amqp.Dial(b.DSN("/"))
		must.OK(t, err)
		defer conn.Close()
		ch, err := conn.Channel()
		must.OK(t, err)
		_, err = ch.QueueDeclare(name, durable, false, false, false, nil)
		return err
	}
	if err := declare("transient", false); err == nil {
		t.Error("a deprecated feature, a transient queue that is not exclusive, is there")
	}
	if err := declare("durable", true); err != nil {
		t.Error(err)
	}
	b.Flush(t)
	if store, err := b.Eval("rabbit_khepri:is_enabled()."); store != "true" {
		t.Errorf("Khepri is enabled: %s, %v", store, err)
	}
	b.Kill()
	b.Restart(t)
	if depths, err := b.Depths("/"); err != nil || len(depths) != 1 {
		t.Errorf("queues after a kill: %v, %v", depths, err)
	}
}

// Two brokers share nothing, and what a test starts ends with it.
func TestBrokersArePrivate(t *testing.T) {
	a := Own(t)
	if cookie, err := os.Stat(filepath.Join(a.Dir, ".erlang.cookie")); err != nil || cookie.Size() == 0 {
		t.Errorf("no cookie of its own: %v", err)
	}
	var pids []int
	t.Run("second", func(t *testing.T) {
		b := Start(t)
		if a.node == b.node || a.Address() == b.Address() || a.Dir == b.Dir {
			t.Errorf("shared: %s in %s, %s in %s", a.node, a.Dir, b.node, b.Dir)
		}
		pids = []int{b.PID(), b.mapper.PID()}
	})
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil && p.Signal(syscall.Signal(0)) == nil {
			t.Errorf("process %d is alive after its test", pid)
		}
	}
	if !a.Running() {
		t.Error("the shared broker went with the other one")
	}
}

// Neither the node nor its port mapper can be reached from another machine.
func TestBrokerListensOnLoopbackOnly(t *testing.T) {
	b := Own(t)
	all := 0
	for _, pid := range []int{b.PID(), b.mapper.PID()} {
		for _, addr := range listening(t, pid) {
			all++
			if !addr.Addr().IsLoopback() {
				t.Errorf("process %d listens on %v", pid, addr)
			}
		}
	}
	if all < 4 {
		t.Errorf("%d ports: AMQP, management, distribution and the port mapper's are four", all)
	}
}

// listening returns what a process listens on.
func listening(t *testing.T, pid int) (all []netip.AddrPort) {
	inodes := map[string]bool{}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must.OK(t, err)
	for _, link := range links {
		target, _ := os.Readlink(link) // it may be closed by now
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		must.OK(t, err)
		for line := range strings.Lines(string(text)) {
			const stateListen = "0A"
			if f := strings.Fields(line); len(f) > 9 && f[3] == stateListen && inodes[f[9]] {
				all = append(all, parseAddress(t, f[1]))
			}
		}
	}
	return all
}

// parseAddress reads an address of /proc/net/tcp: words of four bytes, each in
// the machine's order, here the last byte first.
func parseAddress(t *testing.T, text string) netip.AddrPort {
	host, port, _ := strings.Cut(text, ":")
	bytes, err := hex.DecodeString(host)
	must.OK(t, err)
	for word := range slices.Chunk(bytes, 4) {
		slices.Reverse(word)
	}
	addr, _ := netip.AddrFromSlice(bytes)
	number, err := strconv.ParseUint(port, 16, 16)
	must.OK(t, err)
	return netip.AddrPortFrom(addr.Unmap(), uint16(number))
}

func TestProxy(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer echo.Close()
	p := NewProxy(t, echo.Addr().String())
	c, err := net.Dial("tcp", p.Address())
	must.OK(t, err)
	defer c.Close()
	s, err := echo.Accept()
	must.OK(t, err)
	defer s.Close()

	buffer := make([]byte, 4)
	arrives := func(within time.Duration) error {
		_ = s.SetReadDeadline(time.Now().Add(within))
		_, err := s.Read(buffer)
		return err
	}
	send := func() {
		if _, err := c.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
	}
	send()
	must.OK(t, arrives(time.Minute))
	p.Freeze()
	send()
	if arrives(100*time.Millisecond) == nil {
		t.Error("bytes passed a frozen proxy")
	}
	p.Thaw()
	if err := arrives(time.Minute); err != nil {
		t.Errorf("held bytes did not arrive: %v", err)
	}
	p.Delay(3 * time.Second)
	send()
	if arrives(100*time.Millisecond) == nil {
		t.Error("bytes were not delayed")
	}
	if err := arrives(time.Minute); err != nil {
		t.Errorf("delayed bytes did not arrive: %v", err)
	}
	p.Cut()
	if arrives(10*time.Second) == nil {
		t.Error("the connection was not cut")
	}
}

// Tests ask the broker at the same time.
func TestEvaluationsAtOnce(t *testing.T) {
	b := Shared(t)
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			if got, err := b.Eval(fmt.Sprintf("timer:sleep(200), %d.", i)); err != nil || got != strconv.Itoa(i) {
				t.Errorf("evaluation %d: %q, %v", i, got, err)
			}
		})
	}
	all.Wait()
}
