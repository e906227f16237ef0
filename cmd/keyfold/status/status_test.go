package status

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"keyfold/cmd/keyfold/reach"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/service/status"
	"keyfold/source/rabbit"
)

// quiet is an installation that needs no person.
func quiet() *status.Report {
	held, workers, lag, oldest := 4031, 3, 10.0, 2.0
	names := rabbit.DefaultNames()
	zero := 0
	r := &status.Report{
		At: time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC),
		Servers: []status.Server{
			{Server: status.RabbitMQ, Address: "amqp://keyfold:***@rabbitmq:5672/", Used: true},
			{Server: "MongoDB", Address: "mongodb://mongodb:27017/?replicaSet=rs0", Used: true},
			{Server: status.SQL, Address: "mysql://keyfold:***@mariadb:3306/keyfold", Used: true},
			{Server: "Redis", Address: "redis://redis:6379/0", Used: true},
		},
		Queues: []status.Queue{
			{Name: names.Queue, Of: status.OfProfiles, Holds: status.Events, Ready: 12, Unacknowledged: &held, Consumers: 48, OldestSeconds: &oldest, Setup: "keyfold setup"},
			{Name: names.RetryQueue(200 * time.Millisecond), Of: status.OfProfiles, Holds: status.Delayed, Unacknowledged: &zero, Setup: "keyfold setup"},
			{Name: names.RetryQueue(400 * time.Millisecond), Of: status.OfProfiles, Holds: status.Delayed, Unacknowledged: &zero, Ready: 3, Setup: "keyfold setup"},
			{Name: names.DeadLetters, Of: status.OfProfiles, Holds: status.DeadLetters, Unacknowledged: &zero, Ready: 2, Setup: "keyfold setup"},
		},
		Workers: &workers,
		Outbox:  &status.Outbox{Unsent: 7, OldestSeconds: 0.4},
	}
	for i := range 3 {
		r.Processes = append(r.Processes, status.Process{
			Address: fmt.Sprintf("10.0.0.%d:9090", 11+i), Roles: []string{"worker"}, Version: "v1.0.0", Ready: true, InHand: 1300 + int64(i), Lag99: &lag,
		})
	}
	r.Processes = append(r.Processes, status.Process{Address: "relay:9090", Roles: []string{"relay"}, Version: "v1.0.0", Ready: true})
	return r
}

// faulty is one that does.
func faulty() *status.Report {
	r := quiet()
	none := 0
	r.Servers[1].Error = "MongoDB does not listen at its address; check that it runs, and that MONGODB_URI has its host and port (MongoDB: first read: connection refused at mongodb:27017) [docs/RUNBOOK.md#connection-refused]"
	r.Queues[0].Ready, r.Queues[0].Unacknowledged, r.Queues[0].Consumers = 7210, &none, 0
	r.Queues[3].Ready = 31
	r.Outbox = &status.Outbox{Unsent: 90114, OldestSeconds: 154, SetAside: 1}
	for i := range 2 {
		p := &r.Processes[i]
		p.Ready, p.Reason, p.InHand, p.Open = false, "store: away since 2026-11-23T07:58:40Z: server selection timeout", 0, []string{"store"}
	}
	r.Processes[2] = status.Process{Address: "10.0.0.13:9090", Error: "connection refused"}
	r.Processes[3].Remarks = []string{"partitions: none is this worker's", "dead letters: 3 events wait"}
	judge(r)
	return r
}

func screen(r *status.Report) string {
	var text strings.Builder
	r.Print(&cli.Text{W: &text})
	return text.String()
}

// OPERATIONS shows what these two print.
//
// Promise(monitoring/quiet-faults)
func TestScreensOfTheDocs(t *testing.T) {
	r := quiet()
	if judge(r); len(r.Problems) > 0 {
		t.Errorf("a quiet installation has the problems %+v", r.Problems)
	}
	page, err := os.ReadFile("../../../docs/OPERATIONS.md")
	must.OK(t, err)
	for _, r := range []*status.Report{r, faulty()} {
		text := strings.ReplaceAll("    "+strings.TrimSpace(screen(r)), "\n", "\n    ")
		if text = regexp.MustCompile(`(?m) +$`).ReplaceAllString(text, ""); !strings.Contains(string(page), text) {
			t.Errorf("docs/OPERATIONS.md lacks this screen:\n%s", text)
		}
	}
}

// Each problem has its section in the runbook, and the limits are those of the alerts.
func TestProblemsAgreeWithAlertsAndRunbook(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile("../../../" + path)
		must.OK(t, err)
		return string(text)
	}
	sections := strings.ReplaceAll(strings.ToLower(read("docs/RUNBOOK.md")), " ", "-")
	problems := faulty().Problems
	if len(problems) != 10 {
		t.Errorf("%d problems: %+v", len(problems), problems)
	}
	for _, p := range problems {
		if p.Runbook != "" && !strings.Contains(sections, "#-"+p.Runbook+"\n") {
			t.Errorf("docs/RUNBOOK.md has no section %s", p.Runbook)
		}
	}
	alerts := read("deploy/alerts.yml")
	for _, want := range []string{
		fmt.Sprintf(`notification_(events|deliveries)_failed"}) > %d`, maxDeadLetters), fmt.Sprintf(`([.][0-9]{2}|[.]common)?"})) > %d`, maxReady),
		fmt.Sprintf(`keyfold_outbox_oldest_unsent_seconds > %d`, maxOutboxSecond), fmt.Sprintf(`keyfold_stream_lag_seconds > %d`, maxStreamSecond),
	} {
		if !strings.Contains(alerts, want) {
			t.Errorf("deploy/alerts.yml has no %s", want)
		}
	}
}

// A missing queue is told with the command that declares it, unless the broker is away.
//
// Promise(monitoring/status)
func TestMissingQueues(t *testing.T) {
	r := quiet()
	r.Queues[3].Missing = true
	judge(r)
	want := []status.Problem{{About: "queues", Text: "user_embedding_updates_failed is not there", Cure: "run `keyfold setup`"}}
	if !reflect.DeepEqual(r.Problems, want) {
		t.Errorf("got %+v", r.Problems)
	}
	r = quiet()
	r.Queues[3].Missing, r.Servers[0].Error = true, "away"
	if judge(r); len(r.Problems) != 1 || r.Problems[0].About != status.RabbitMQ {
		t.Errorf("got %+v", r.Problems)
	}
}

// Streams are summed up, and each fault of one is a problem.
func TestStreams(t *testing.T) {
	r := quiet()
	r.Streams = []status.Stream{{Stream: "s-0", First: 100, End: 1200, Position: 1100, Lag: 100, Behind: 20}, {Stream: "s-1", End: 1000, Position: 1000}}
	judge(r)
	var screen bytes.Buffer
	r.Print(&cli.Text{W: &screen})
	if len(r.Problems) > 0 || !regexp.MustCompile(`2 streams +2,100 +100 +20s`).MatchString(screen.String()) {
		t.Errorf("%+v\n%s", r.Problems, screen.String())
	}
	r.Streams[1].Behind, r.Streams[1].Fault = 61, "the position is beyond the end"
	judge(r)
	if len(r.Problems) != 2 || r.Problems[0].About != "s-1" || !strings.Contains(r.Problems[1].Text, "1m ago") {
		t.Errorf("%+v", r.Problems)
	}
}

// Delays of other settings are found where the management API lists them.
func TestOtherDelays(t *testing.T) {
	names := rabbit.DefaultNames()
	known := []status.Queue{{Name: names.Queue, Of: status.OfProfiles, Holds: status.Events}, {Name: names.RetryQueue(time.Second), Of: status.OfProfiles, Holds: status.Delayed}}
	managed := map[string]managedQueue{}
	for _, name := range []string{names.Queue, names.RetryQueue(time.Second), names.RetryQueue(7 * time.Second), names.RetryExchange(time.Minute), "shop.retry.1000"} {
		managed[name] = managedQueue{Name: name}
	}
	want := []status.Queue{
		{Name: names.RetryQueue(7 * time.Second), Of: status.OfProfiles, Holds: status.Delayed}, {Name: names.RetryExchange(time.Minute), Of: status.OfProfiles, Holds: status.Delayed},
	}
	if got := otherDelays(known, managed); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// A screen is painted over the one before, each line to its end.
func TestRepaint(t *testing.T) {
	var text strings.Builder
	r := &status.Report{At: time.Unix(0, 0), Notes: []string{"one"}}
	must.OK(t, repaint(&text, r))
	var screen strings.Builder
	r.Print(&cli.Text{W: &screen})
	plain := screen.String()
	if want := "\x1b[H" + strings.ReplaceAll(plain, "\n", "\x1b[K\n") + "\x1b[J"; text.String() != want {
		t.Errorf("got %q", text.String())
	}
}

// A name with a question mark needs its port all the same.
func TestProcessesHavePorts(t *testing.T) {
	if err := (reach.StatusFlags{Processes: []string{"notify-api:9090?"}}).Check(); err != nil {
		t.Error(err)
	}
	if err := (reach.StatusFlags{Processes: []string{"notify-api?"}}).Check(); err == nil {
		t.Error("a name without a port was taken")
	}
}

// A text of a server or a process commands no terminal.
func TestScreenIsPrintable(t *testing.T) {
	r := quiet()
	r.Processes[0].Ready, r.Processes[0].Reason = false, "store: \x1b[2J away\nsince yesterday"
	r.Servers[1].Error = "\x1b[2J"
	judge(r)
	if text := screen(r); strings.Contains(text, "\x1b") {
		t.Errorf("got %q", text)
	}
}

// A name with an address of each family is one process, as localhost is; one with several of a
// family is several.
func TestAddresses(t *testing.T) {
	for _, c := range []struct{ found, want string }{
		{"127.0.0.1 ::1", "127.0.0.1"},
		{"::1 ::ffff:127.0.0.1 127.0.0.1", "127.0.0.1"},
		{"fd00::2 fd00::1", "fd00::1 fd00::2"},
		{"10.0.0.2 fd00::1 10.0.0.1 fd00::2", "10.0.0.1 10.0.0.2"},
	} {
		var found []netip.Addr
		for _, text := range strings.Fields(c.found) {
			found = append(found, netip.MustParseAddr(text))
		}
		if got := strings.Join(oneFamily(found), " "); got != c.want {
			t.Errorf("of %s: got %s, want %s", c.found, got, c.want)
		}
	}
	given := []string{"localhost:9090", "[::1]:9090", "127.0.0.1:9091"}
	if got, problems, _ := addresses(t.Context(), given); !reflect.DeepEqual(got, given) || len(problems) != 0 {
		t.Errorf("got %q and %+v", got, problems)
	}
	if got, problems, _ := addresses(t.Context(), []string{"worker.invalid:9090"}); len(got) != 0 || len(problems) != 1 {
		t.Errorf("a name without addresses: %q and %+v", got, problems)
	}
}

// A name with a question mark may stand for no process, as that of a service that was not asked for:
// this is a note and no problem. With addresses it is like any other.
//
// Promise(manifests/one-image)
func TestAddressesThatMayBeMissing(t *testing.T) {
	got, problems, notes := addresses(t.Context(), []string{"127.0.0.1:9090?", "notify-api.invalid:9090?"})
	if !reflect.DeepEqual(got, []string{"127.0.0.1:9090"}) || len(problems) > 0 {
		t.Errorf("got %q, problems %+v", got, problems)
	}
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "notify-api.invalid:9090 stands for no process now: ") {
		t.Errorf("the notes are %q", notes)
	}
}

// A process that listens and gives no answer is slow; one that is gone refuses the connection.
//
// Promise(monitoring/quiet-faults)
func TestASlowProcessIsNotGone(t *testing.T) {
	t.Parallel() // it waits for what has no answer
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	gone.Close()
	for address, want := range map[string]string{silent.Addr().String(): "the process listens, and has not answered", gone.Addr().String(): "the process does not answer"} {
		r := &status.Report{Processes: []status.Process{lookAt(t.Context(), address, nil)}}
		if judge(r); len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Text, want) {
			t.Errorf("want %q: %+v", want, r.Problems)
		}
	}
}

// A share of events without a product vector, which a worker tells, has its page.
//
// Promise(monitoring/quiet-faults)
func TestMissingProductsNeedAPerson(t *testing.T) {
	r := quiet()
	r.Processes[0].Remarks = []string{"products: 50 % of the newest 100 events are of products without a vector"}
	if judge(r); len(r.Problems) != 1 || r.Problems[0].Runbook != "keyfoldproductsmissing" {
		t.Errorf("%+v", r.Problems)
	}
}

// One half-life of second vectors is shown; several are a problem, as each worker refuses what
// the others wrote.
func TestHalfLivesOfSecondVectors(t *testing.T) {
	minute, none := 60.0, 0.0
	for want, workers := range map[string][]*float64{
		"profiles have a second vector, half-life 1m0s":                                         {&minute, &minute},
		"✗ workers: they have different half-lives of the profiles' second vector (1m0s, none)": {&minute, &none},
		"Nothing needs a person": {&none, &none, nil},
	} {
		r := &status.Report{}
		for _, life := range workers {
			r.Processes = append(r.Processes, status.Process{Ready: true, ShortHalfLife: life})
		}
		judge(r)
		var out bytes.Buffer
		console := cli.Console{Streams: cli.Streams{Stdout: &out}}
		if err := console.Emit(nil, r.Print); err != nil || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "second vector") == strings.HasPrefix(want, "Nothing") {
			t.Errorf("%v\n%s, want %q", err, &out, want)
		}
	}
	p := status.Process{Figures: map[string]float64{"keyfold_short_half_life_seconds": 60}}
	if read(&p, nil); p.ShortHalfLife == nil || *p.ShortHalfLife != 60 {
		t.Errorf("read as %v", p.ShortHalfLife)
	}
}
