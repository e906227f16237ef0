package redistest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// Ask makes one request over a connection of its own and returns the reply's
// first line (with its type's sign), or the whole text of a bulk reply.
func (s *Server) Ask(words ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Address(), time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	request := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write([]byte(request)); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(conn))
}

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if !strings.HasPrefix(line, "$") || line == "$-1" {
		return line, nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil {
		return "", err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(r, text)
	return string(text), err
}

// Do is Ask for tests. A server with a password refuses it.
func (s *Server) Do(t testing.TB, words ...string) string {
	t.Helper()
	reply, err := s.Ask(words...)
	if err != nil || strings.HasPrefix(reply, "-") {
		t.Fatalf("%s: %s %v", strings.Join(words, " "), reply, err)
	}
	return reply
}

// Info returns a section of what the server says of itself; nothing while it does
// not answer, or hangs up because its role changes.
func (s *Server) Info(section string) string {
	text, err := s.Ask("INFO", section)
	if err != nil {
		return ""
	}
	return text
}

// Cluster runs that many masters, which share the slots, until the test's end.
func Cluster(t testing.TB, masters int) []*Server {
	t.Helper()
	const slots = 16384
	nodes := make([]*Server, masters)
	for i := range nodes {
		nodes[i] = Start(t, "--cluster-enabled", "yes")
		first, last := i*slots/masters, (i+1)*slots/masters-1
		nodes[i].Do(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last))
		nodes[i].Do(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i > 0 {
			nodes[i].Do(t, "CLUSTER", "MEET", "127.0.0.1", port(nodes[0].Ports, plain), port(nodes[0].Ports, clusterBus))
		}
	}
	for _, node := range nodes {
		must.Hold(t, "a whole cluster", func() bool { return strings.Contains(node.Do(t, "CLUSTER", "INFO"), "cluster_state:ok") })
	}
	return nodes
}
