package rabbittest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// client keeps no connection open, so that no goroutine outlives a test.
var client = &http.Client{
	Transport: &http.Transport{DisableKeepAlives: true},
	Timeout:   30 * time.Second,
}

// Eval has the node evaluate Erlang expressions and returns the value of the last, as
// Erlang writes it. rabbitmqctl would take a second of processor time for it. Calls may
// run at once: -R has the node name each, and it refuses a second one of the same name.
func (b *Broker) Eval(script string) (string, error) {
	cookie, err := os.ReadFile(filepath.Join(b.Dir, ".erlang.cookie"))
	if err != nil {
		return "", err
	}
	command := exec.Command(b.call, "-R", "-sname", b.node, "-c", string(cookie), "-e")
	command.Env, command.Dir, command.Stdin = b.Env, b.Dir, strings.NewReader(script+"\n")
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("erl_call: %w\n%s", err, output)
	}
	value, ok := strings.CutPrefix(string(output), "{ok, ")
	if !ok {
		return "", fmt.Errorf("erl_call: %s\n%s", output, script)
	}
	return strings.TrimSuffix(value, "}"), nil
}

// Tell runs rabbitmqctl with these arguments and returns what it printed. It
// takes about a second: Eval is quicker.
func (b *Broker) Tell(args ...string) (string, error) {
	command := exec.Command(b.control, append([]string{"--quiet", "--node", b.node}, args...)...)
	command.Env, command.Dir = b.Env, b.Dir
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// Control is Tell for tests.
func (b *Broker) Control(t testing.TB, args ...string) string {
	t.Helper()
	output, err := b.Tell(args...)
	must.OK(t, err)
	return output
}

// Sync has the broker write its definitions to disk. It keeps them in memory for a
// moment after it has answered, so that a queue declared just before a kill can be
// gone: a loss of the broker's, and not of keyfold's. Khepri, which may have taken
// Mnesia's place, answers once the disk has them.
//
// Which parts of a cluster a node runs is in tables that are written half a second later. A node
// that lost the coordinator of streams this way says of all of them that they are not available,
// until the coordinator is started on it anew.
func (b *Broker) Sync() error {
	_, err := b.Eval("case lists:keymember(mnesia, 1, application:which_applications()) of true -> mnesia:sync_log(); false -> ok end, " +
		"lists:foreach(fun dets:sync/1, dets:all()).")
	return err
}

// Flush is Sync for tests.
func (b *Broker) Flush(t testing.TB) {
	t.Helper()
	must.OK(t, b.Sync())
}

// ManagementURL is the address of the management API, without user and password.
func (b *Broker) ManagementURL() string { return "http://" + b.Ports.Address(managementPort) }

// QueueMetricsURL is where Prometheus reads the queues' figures, of a broker with statistics.
func (b *Broker) QueueMetricsURL() string {
	return "http://" + b.Ports.Address(prometheusPort) + "/metrics/detailed?family=queue_coarse_metrics&family=queue_consumer_count"
}

// MetricsURL is where Prometheus reads the figures of the broker itself, such as its alarms.
func (b *Broker) MetricsURL() string { return "http://" + b.Ports.Address(prometheusPort) + "/metrics" }

// Manage reads an answer of the management API.
func (b *Broker) Manage(ctx context.Context, method, path string, body, into any) error {
	answer, err := b.ask(ctx, method, path, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

func (b *Broker) request(ctx context.Context, method, path string, body any) error {
	_, err := b.ask(ctx, method, path, body)
	return err
}

// ask calls the management API.
func (b *Broker) ask(ctx context.Context, method, path string, body any) ([]byte, error) {
	var text io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		text = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, b.ManagementURL()+"/api/"+path, text)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth("guest", "guest")
	req.Header.Set("Content-Type", "application/json") // the limits of users ask for it
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, res.Status, content)
	}
	return content, nil
}

// answers reports whether both listeners do; which is first is not promised.
func (b *Broker) answers(ctx context.Context) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", b.Address())
	if err != nil {
		return false
	}
	conn.Close()
	return b.request(ctx, http.MethodGet, "whoami", nil) == nil
}

func (b *Broker) must(t testing.TB, method, path string, body any) {
	t.Helper()
	must.OK(t, b.request(context.Background(), method, path, body))
}

// VHost makes a virtual host that lasts as long as the test and returns its
// name.
func (b *Broker) VHost(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", b.vhosts.Add(1))
	if b.Elsewhere { // other test binaries have virtual hosts there, too
		name = fmt.Sprintf("%s-%d", name, os.Getpid())
	}
	must.OK(t, b.AddVHost(name))
	t.Cleanup(func() {
		if b.Running() {
			_ = b.RemoveVHost(name)
		}
	})
	return name
}

// AddVHost makes a virtual host in which the user guest may do everything.
func (b *Broker) AddVHost(name string) error {
	err := b.request(context.Background(), http.MethodPut, "vhosts/"+name, nil)
	if err == nil {
		err = b.permit(name, "guest", ".*", ".*", ".*")
	}
	return err
}

// RemoveVHost removes a virtual host with all it holds.
func (b *Broker) RemoveVHost(name string) error {
	return b.request(context.Background(), http.MethodDelete, "vhosts/"+name, nil)
}

// AddUser makes a user with a password and no permission anywhere.
func (b *Broker) AddUser(t testing.TB, name, password string) {
	t.Helper()
	b.must(t, http.MethodPut, "users/"+name, map[string]string{"password": password, "tags": ""})
}

// LimitUser sets a limit of a user, max-connections or max-channels.
func (b *Broker) LimitUser(t testing.TB, name, limit string, most int) {
	t.Helper()
	b.must(t, http.MethodPut, "user-limits/"+name+"/"+limit, map[string]int{"value": most})
}

// Permit gives a user permissions, as regular expressions, in a virtual host.
func (b *Broker) Permit(t testing.TB, vhost, user, configure, write, read string) {
	t.Helper()
	must.OK(t, b.permit(vhost, user, configure, write, read))
}

func (b *Broker) permit(vhost, user, configure, write, read string) error {
	return b.request(context.Background(), http.MethodPut, "permissions/"+vhost+"/"+user,
		map[string]string{"configure": configure, "write": write, "read": read})
}

// SetPolicy gives the queues that a regular expression matches what the definition, a
// JSON object, says. A virtual host has one such policy.
func (b *Broker) SetPolicy(t testing.TB, vhost, pattern, definition string) {
	t.Helper()
	b.must(t, http.MethodPut, "policies/"+vhost+"/test",
		map[string]any{"pattern": pattern, "definition": json.RawMessage(definition), "apply-to": "queues"})
}

// ClearPolicy removes what SetPolicy has set.
func (b *Broker) ClearPolicy(t testing.TB, vhost string) {
	t.Helper()
	b.must(t, http.MethodDelete, "policies/"+vhost+"/test", nil)
}

// DeleteQueue removes a queue with all it holds.
func (b *Broker) DeleteQueue(t testing.TB, vhost, queue string) {
	t.Helper()
	b.must(t, http.MethodDelete, "queues/"+vhost+"/"+url.PathEscape(queue), nil)
}

// CloseConnections makes the broker close the connections to a virtual host
// whose client-given names contain name ("" for all), and returns how many
// there were. It goes by the broker's own registry, which is up to date at
// once, unlike the figures of the management API.
func (b *Broker) CloseConnections(t testing.TB, vhost, name string) int {
	t.Helper()
	script := fmt.Sprintf(`Named = fun(C) -> case lists:keyfind(<<"connection_name">>, 1, C) of
		    {_, _, N} -> string:find(N, %q) =/= nomatch;
		    false -> %q =:= "" end end,
		Pids = [P || [{pid, P}, {vhost, <<%q>>}, {client_properties, C}] <-
		    rabbit_networking:connection_info_all([pid, vhost, client_properties]), Named(C)],
		[rabbit_networking:close_connection(P, "closed by a test") || P <- Pids], length(Pids).`,
		name, name, vhost)
	value, err := b.Eval(script)
	must.OK(t, err)
	n, err := strconv.Atoi(value)
	must.OK(t, err)
	return n
}

// Hurry makes the broker one of [StartImpatient]'s until the test ends, for channels that
// are opened from now on: no other test may hold messages meanwhile.
func (b *Broker) Hurry(t testing.TB, timeout time.Duration) {
	t.Helper()
	set := func(timeout, tick time.Duration) {
		if _, err := b.Eval(fmt.Sprintf("application:set_env(rabbit, consumer_timeout, %d), application:set_env(rabbit, channel_tick_interval, %d).",
			timeout.Milliseconds(), tick.Milliseconds())); err != nil {
			t.Error(err)
		}
	}
	set(timeout, time.Second)
	t.Cleanup(func() { set(patient, time.Minute) })
}

// SetAlarm raises or clears the memory alarm.
func (b *Broker) SetAlarm(on bool) error {
	watermark := "0.4"
	if on {
		watermark = "0.0"
	}
	_, err := b.Eval("vm_memory_monitor:set_vm_memory_high_watermark(" + watermark + ").")
	return err
}

// Alarm is SetAlarm for tests.
func (b *Broker) Alarm(t testing.TB, on bool) {
	t.Helper()
	must.OK(t, b.SetAlarm(on))
}

// DiskAlarm raises or clears the alarm of the free disk space. A monitor that could not read how
// much is free looks no more for a while, or starts anew with the limit of the configuration: it is
// told again.
func (b *Broker) DiskAlarm(t testing.TB, on bool) {
	t.Helper()
	limit := "50000000"
	if on {
		limit = "1000000000000000"
	}
	set := "catch rabbit_disk_monitor:set_disk_free_limit(" + limit + "), lists:keymember({resource_limit, disk, node()}, 1, rabbit_alarm:get_alarms())."
	for range 100 {
		if got, err := b.Eval(set); err != nil {
			t.Fatal(err)
		} else if got == strconv.FormatBool(on) {
			return
		}
		if _, err := b.Eval("catch rabbit_disk_monitor:set_enabled(true)."); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("the alarm of the disk space is not as it was to be: %t", on)
}
