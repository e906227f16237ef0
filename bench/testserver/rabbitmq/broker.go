package rabbittest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/bench/testserver/process"
)

// startTimeout bounds a start; on a busy machine one takes up to half a minute.
const startTimeout = 2 * time.Minute

// Broker is one private RabbitMQ node. Its methods may be called from several
// goroutines, except those that start and stop it.
type Broker struct {
	install installation
	dir     string
	node    string
	ports   block

	mu     sync.Mutex
	server *process.Process
	mapper *process.Process // epmd: which port the node listens on, for rabbitmqctl
	vhosts atomic.Int64
}

// Start runs a broker of the test's own and stops it at the test's end.
func Start(t testing.TB) *Broker {
	t.Helper()
	return start(t, patient)
}

// StartImpatient is Start with a broker that closes the channel of a consumer
// that holds a message for longer than timeout, within a second or so: its
// consumer_timeout, which is half an hour by default.
func StartImpatient(t testing.TB, timeout time.Duration) *Broker {
	t.Helper()
	return start(t, timeout)
}

func start(t testing.TB, timeout time.Duration) *Broker {
	t.Helper()
	b, err := launch(t.TempDir(), timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return b
}

// patient is RabbitMQ's own consumer_timeout.
const patient = 30 * time.Minute

// launch starts a node whose files are all in dir.
func launch(dir string, timeout time.Duration) (*Broker, error) {
	install, err := locate()
	if err != nil {
		return nil, err
	}
	ports, err := claimPorts()
	if err != nil {
		return nil, err
	}
	b := &Broker{install: install, dir: dir, ports: ports}
	b.node = "keyfold" + strconv.Itoa(ports.amqp()) + "@localhost"
	if err := b.start(timeout); err != nil {
		b.Stop()
		return nil, err
	}
	return b, nil
}

// start starts the port mapper and boots.
func (b *Broker) start(timeout time.Duration) (err error) {
	if err := b.writeFiles(timeout); err != nil {
		return err
	}
	if b.mapper, err = process.Start(b.dir, "epmd", b.environment(), b.install.epmd,
		"-address", "127.0.0.1", "-port", strconv.Itoa(b.ports.epmd())); err != nil {
		return err
	}
	return b.boot()
}

func (b *Broker) writeFiles(timeout time.Duration) error {
	config := fmt.Sprintf("listeners.tcp.1 = %s\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %d\n"+
		"log.console = false\ndisk_free_limit.absolute = 1MB\nconsumer_timeout = %d\n",
		address(b.ports.amqp()), b.ports.management(), timeout.Milliseconds())
	// How often a channel looks for what it holds too long has no name there; a
	// minute by default.
	tick := time.Minute
	if timeout < patient {
		tick = time.Second
	}
	for name, text := range map[string]string{
		"rabbitmq.conf":   config,
		"advanced.config": fmt.Sprintf("[{rabbit, [{channel_tick_interval, %d}]}].\n", tick.Milliseconds()),
		"enabled_plugins": "[rabbitmq_management].\n",
	} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// loopbackOnly has an Erlang node listen for other nodes on 127.0.0.1 only.
const loopbackOnly = "-kernel inet_dist_use_interface {127,0,0,1}"

// environment holds nothing of the caller's but the path. HOME brings a cookie
// of the node's own.
func (b *Broker) environment() []string {
	in := func(name string) string { return filepath.Join(b.dir, name) }
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"LANG=C.UTF-8",
		"HOME=" + b.dir,
		"ERL_EPMD_PORT=" + strconv.Itoa(b.ports.epmd()),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=" + b.node,
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(b.ports.dist()),
		// No other machine may reach them: a client that has the cookie can run
		// programs in a node.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + loopbackOnly,
		"RABBITMQ_CTL_ERL_ARGS=" + loopbackOnly,
		"RABBITMQ_CTL_DIST_PORT_MIN=" + strconv.Itoa(b.ports.control()),
		"RABBITMQ_CTL_DIST_PORT_MAX=" + strconv.Itoa(b.ports.control()+controls-1),
		"RABBITMQ_MNESIA_BASE=" + in("data"),
		"RABBITMQ_LOG_BASE=" + in("log"),
		"RABBITMQ_PID_FILE=" + in("pid"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + in("enabled_plugins"),
		"RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + in("advanced.config"),
		"RABBITMQ_CONF_ENV_FILE=" + in("no-such-file"),
		// Makes the script become the Erlang machine instead of its parent, so
		// that the pid of the child is the one to kill.
		"detached=1",
	}
}

// boot starts the server and waits until it answers.
func (b *Broker) boot() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	server, err := process.Start(b.dir, "server", b.environment(), b.install.server)
	if err != nil {
		return err
	}
	b.server = server
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for b.ping(ctx) != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the broker did not answer within %v:\n%s", startTimeout, b.output())
		case <-server.Ended():
			return fmt.Errorf("the broker ended while starting:\n%s", b.output())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// output returns the end of what the server printed and logged.
func (b *Broker) output() string {
	var all strings.Builder
	for _, name := range []string{"server.out", filepath.Join("log", b.node+".log")} {
		text, _ := os.ReadFile(filepath.Join(b.dir, name))
		all.Write(text[max(0, len(text)-4000):])
	}
	return all.String()
}

// Address returns the host and port of the AMQP listener.
func (b *Broker) Address() string { return address(b.ports.amqp()) }

// DSN returns the AMQP URL of a virtual host for the user guest.
func (b *Broker) DSN(vhost string) string { return DSN(b.Address(), vhost) }

// DSN returns the AMQP URL of a virtual host behind an address.
func DSN(address, vhost string) string {
	return "amqp://guest:guest@" + address + "/" + url.PathEscape(vhost)
}

// Kill ends the broker's machine with SIGKILL, as a crash would.
func (b *Broker) Kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server.Kill()
}

// Restart boots the broker on the same ports and data, having killed it where
// it still runs.
func (b *Broker) Restart(t testing.TB) {
	t.Helper()
	b.Kill()
	if err := b.boot(); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the broker and its port mapper and gives its ports up. It may be
// called again.
func (b *Broker) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.ports.claim.Close()
	for _, p := range []*process.Process{b.server, b.mapper} {
		if p != nil {
			p.Kill()
		}
	}
}
