package rabbittest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
)

// What follows serves programs that are no tests: it returns errors.

// Launch runs a private broker, all of its files in dir. The caller stops it.
func Launch(dir string) (*Broker, error) { return launch(dir, patient) }

// Boot starts a broker that was killed on the same ports and data.
func (b *Broker) Boot() error { return b.boot() }

// Signal sends a signal to the broker's machine: SIGSTOP and SIGCONT, for one.
func (b *Broker) Signal(s os.Signal) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.server.Signal(s)
}

// Tell runs rabbitmqctl with these arguments and returns what it printed. It
// takes about a second.
func (b *Broker) Tell(args ...string) (string, error) {
	command := exec.Command(b.install.control, append([]string{"--quiet", "--node", b.node}, args...)...)
	command.Env, command.Dir = b.environment(), b.dir
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// Relay starts a relay to an address. The caller closes it.
func Relay(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{target: target, listener: listener, conns: map[net.Conn]struct{}{}, thaw: make(chan struct{})}
	close(p.thaw)
	p.working.Go(p.accept)
	return p, nil
}
