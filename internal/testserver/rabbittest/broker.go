package rabbittest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"keyfold/internal/testserver/process"
)

// Broker is one private RabbitMQ node. Its methods may be called from several
// goroutines.
type Broker struct {
	process.Server
	installation
	node   string
	mapper *process.Process // epmd: which port the node listens on, for rabbitmqctl; nil: first's
	first  *Broker          // of the cluster; nil: it is the first, or alone
	vhosts atomic.Int64
}

// Shared returns the run's one broker, see [Serve], or the test binary's, see [process.Shared].
// It speaks the stream protocol too. Tests on it use a virtual host each, never kill it and set
// nothing that holds beyond that host.
var Shared = process.Shared(served("shared", chosen, launchShared))

func launchShared(dir string) (*Broker, error) {
	return launch(dir, options{look: chosen, timeout: patient, streams: true, shared: true})
}

// Own returns the test binary's one broker, of which other test binaries have none of the
// consequences. It speaks the stream protocol too.
var Own = process.Shared(launchShared)

// SharedWithStatistics is [Shared] with a broker whose management gathers statistics.
var SharedWithStatistics = process.Shared(LaunchWithStatistics)

// StartWithStatistics is [Start] with a broker whose management gathers statistics, as it does
// by default, and which Prometheus can read: other brokers of tests leave out what costs CPU.
func StartWithStatistics(t testing.TB) *Broker {
	t.Helper()
	return process.ForTest(t, LaunchWithStatistics)
}

// LaunchWithStatistics is [Launch] with a broker as [StartWithStatistics] has it.
func LaunchWithStatistics(dir string) (*Broker, error) {
	return launch(dir, options{look: chosen, timeout: patient, statistics: true, streams: true, shared: true})
}

// Start runs a broker of the test's own and stops it at the test's end.
func Start(t testing.TB) *Broker {
	t.Helper()
	return process.ForTest(t, Launch)
}

// StartVersion is Start with a broker of this major version of RabbitMQ, 3 or 4, for
// tests of what only that one does: [Start]'s is the machine's. A test whose version
// is missing fails.
func StartVersion(t testing.TB, major int) *Broker {
	t.Helper()
	return process.ForTest(t, launchVersion(major))
}

// SharedVersion is Shared with a broker of this major version, see [StartVersion]. It may speak
// the stream protocol, too.
func SharedVersion(t testing.TB, major int) *Broker {
	t.Helper()
	if in, err := chosen(); err == nil && in.major == major {
		return Shared(t)
	}
	return SharedStreams(t, major)
}

func launchVersion(major int) func(dir string) (*Broker, error) {
	return func(dir string) (*Broker, error) { return LaunchVersion(dir, major) }
}

// LaunchVersion is [Launch] with a broker of this major version of RabbitMQ, 3 or 4.
func LaunchVersion(dir string, major int) (*Broker, error) {
	return launch(dir, options{look: version(major), timeout: patient})
}

// StartImpatient is Start with a broker that closes the channel of a consumer
// that holds a message for longer than timeout, within a second or so: its
// consumer_timeout, which is half an hour by default.
func StartImpatient(t testing.TB, timeout time.Duration) *Broker {
	t.Helper()
	return process.ForTest(t, func(dir string) (*Broker, error) { return launch(dir, options{look: chosen, timeout: timeout}) })
}

// Launch runs a private broker, all of its files in dir. The caller stops it.
func Launch(dir string) (*Broker, error) { return launch(dir, options{look: chosen, timeout: patient}) }

// patient is RabbitMQ's own consumer_timeout.
const patient = 30 * time.Minute

// The broker's ports. rabbitmqctl chooses among several, since its calls overlap.
const (
	amqpPort = iota
	distPort
	epmdPort
	managementPort
	prometheusPort
	firstControlPort
	lastControlPort = firstControlPort + 10
	streamPort      = lastControlPort + 1
	streamTLSPort   = streamPort + 1
	amqpTLSPort     = streamTLSPort + 1
)

// options are what a broker of tests may be unlike others in.
type options struct {
	look       func() (installation, error)
	timeout    time.Duration // its consumer_timeout
	statistics bool
	streams    bool      // the stream protocol, too
	files      *TLSFiles // of listeners with TLS; nil: without
	first      *Broker   // of the cluster that it joins; nil: none
	shared     bool      // by many tests, see sharing
}

// sharing has a node that makes and removes hundreds of virtual hosts take a quarter less of
// the processor's time: one scheduler, and Mnesia merges its log a hundred times less often.
const sharing = " +S 1:1 -mnesia dump_log_write_threshold 100000"

// accounts reports whether certificates are users.
func (o options) accounts() bool { return o.files != nil && o.files.Accounts }

// plugins are those that the node is to start.
func (o options) plugins() []string {
	all := []string{"rabbitmq_management"}
	if o.statistics {
		all = append(all, "rabbitmq_prometheus")
	}
	if o.streams {
		all = append(all, "rabbitmq_stream")
	}
	if o.accounts() {
		all = append(all, "rabbitmq_auth_mechanism_ssl")
	}
	return all
}

// launch starts a node whose files are all in dir.
func launch(dir string, o options) (*Broker, error) {
	in, err := o.look()
	if err != nil {
		return nil, err
	}
	b := &Broker{installation: in, Server: process.Server{Dir: dir, Path: in.server}, first: o.first}
	if b.Ports, err = process.ClaimPorts(); err != nil {
		return nil, err
	}
	if err := slimHome(in.home, dir, o.plugins()); err != nil {
		return nil, err
	}
	b.name(o)
	b.Answers = func(ctx context.Context) bool { return b.answers(ctx) && b.streamsAnswer(ctx, o) }
	b.Logs = filepath.Join(dir, "log", b.node+".log")
	if err := b.start(o); err != nil {
		b.Stop()
		return nil, err
	}
	return b, nil
}

// name gives the node its name, which goes by its port, and with it its environment.
func (b *Broker) name(o options) {
	b.node = "keyfold" + strconv.Itoa(b.Ports.Port(amqpPort)) + "@localhost"
	b.Env = b.environment(scriptsIn(b.Dir), o)
}

// start starts the port mapper and boots.
func (b *Broker) start(o options) (err error) {
	if err := b.writeFiles(o); err != nil {
		return err
	}
	if b.first != nil {
		err = b.join()
	} else {
		b.mapper, err = process.Start(b.Dir, "epmd", b.Env, b.epmd, "-address", "127.0.0.1", "-port", b.port(epmdPort))
	}
	if err != nil {
		return err
	}
	if err := b.Boot(); err != nil || !b.strict() {
		return err
	}
	_, err = b.Eval("ok = rabbit_feature_flags:enable(khepri_db).")
	return err
}

func (b *Broker) port(i int) string { return strconv.Itoa(b.Ports.Port(i)) }

// deprecated are the features of RabbitMQ 4.0 that a later version drops.
var deprecated = []string{
	"amqp_address_v1", "global_qos", "management_metrics_collection", "queue_master_locator", "ram_node_type", "transient_nonexcl_queues",
}

// strict reports whether the broker is to be as later versions are, see [strictVariable].
func (b *Broker) strict() bool { return b.major >= 4 && os.Getenv(strictVariable) != "" }

func (b *Broker) writeFiles(o options) error {
	config := fmt.Sprintf("listeners.tcp.1 = %s\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %s\n"+
		"management_agent.disable_metrics_collector = %t\nlog.console = false\ndisk_free_limit.absolute = 1MB\nconsumer_timeout = %d\n",
		b.Address(), b.port(managementPort), !o.statistics, o.timeout.Milliseconds())
	if o.statistics {
		config += fmt.Sprintf("collect_statistics_interval = 500\nprometheus.tcp.ip = 127.0.0.1\nprometheus.tcp.port = %s\n", b.port(prometheusPort))
	}
	config += b.streamConfig(o) + b.clusterConfig()
	// How often a channel looks for what it holds too long has no name there; a
	// minute by default.
	tick := time.Minute
	if o.timeout < patient {
		tick = time.Second
	}
	if b.strict() {
		for _, feature := range deprecated {
			config += "deprecated_features.permit." + feature + " = false\n"
		}
	}
	for name, text := range map[string]string{
		"rabbitmq.conf":   config,
		"advanced.config": fmt.Sprintf("[{rabbit, [{channel_tick_interval, %d}]}].\n", tick.Milliseconds()),
		"enabled_plugins": "[" + strings.Join(o.plugins(), ",") + "].\n",
	} {
		if err := os.WriteFile(filepath.Join(b.Dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// loopbackOnly has an Erlang node listen for other nodes on 127.0.0.1 only.
const loopbackOnly = "-kernel inet_dist_use_interface {127,0,0,1}"

// environment holds nothing of the caller's but the path. HOME brings a cookie
// of the node's own.
func (b *Broker) environment(scripts string, o options) []string {
	server := loopbackOnly
	if o.shared {
		server += sharing
	}
	in := func(name string) string { return filepath.Join(b.Dir, name) }
	return []string{
		"PATH=" + b.path,
		"LANG=C.UTF-8",
		"HOME=" + b.Dir,
		"RABBITMQ_SCRIPTS_DIR=" + scripts,
		"ERL_EPMD_PORT=" + cmp.Or(b.first, b).port(epmdPort),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=" + b.node,
		"RABBITMQ_DIST_PORT=" + b.port(distPort),
		// No other machine may reach them: a client that has the cookie can run
		// programs in a node.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + server,
		"RABBITMQ_CTL_ERL_ARGS=" + loopbackOnly,
		"RABBITMQ_CTL_DIST_PORT_MIN=" + b.port(firstControlPort),
		"RABBITMQ_CTL_DIST_PORT_MAX=" + b.port(lastControlPort),
		"RABBITMQ_MNESIA_BASE=" + in("data"), // also where Khepri has taken Mnesia's place
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

// DSN returns the AMQP URL of a virtual host for the user guest.
func (b *Broker) DSN(vhost string) string { return DSN(b.Address(), vhost) }

// DSN returns the AMQP URL of a virtual host behind an address.
func DSN(address, vhost string) string {
	return "amqp://guest:guest@" + address + "/" + url.PathEscape(vhost)
}

// Stop ends the broker and its port mapper and gives its ports up. It may be
// called again. One that other test binaries use lives on: of it only those connections
// end that a command has left to its management API for the next request, which would
// otherwise end with the broker.
func (b *Broker) Stop() {
	if b.Elsewhere {
		http.DefaultClient.CloseIdleConnections()
	}
	b.Server.Stop()
	if b.mapper != nil {
		b.mapper.Kill()
	}
}
