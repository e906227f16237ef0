package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/sqltest"
	"keyfold/source/outbox"
)

// shop is a stack with a database: a shop whose interactions enter through
// `ingest`.
type shop struct {
	*stack
	url  string   // DATABASE_URL
	more []string // flags that override the stack's
}

// onEach runs a test with each kind of database; its short form with one of them, which
// are spread over the tests.
func onEach(t *testing.T, short string, test func(t *testing.T, s *shop)) {
	t.Parallel()
	for _, kind := range []string{outbox.MariaDB, outbox.PostgreSQL, outbox.SQLite} {
		if kind != short && !long {
			continue
		}
		t.Run(kind, func(t *testing.T) { test(t, newShop(t, kind)) })
	}
}

func newShop(t *testing.T, kind string) *shop {
	t.Helper()
	s := &shop{stack: unsetStack(t), url: newDatabase(t, kind)}
	s.setUp(t, "--database-url", s.url)
	return s
}

// newDatabase returns the DATABASE_URL of an empty database.
func newDatabase(t *testing.T, kind string) string {
	t.Helper()
	switch kind {
	case outbox.MariaDB:
		server := sqltest.Shared(t)
		return server.URL(server.Database(t))
	case outbox.PostgreSQL:
		server := pgtest.Shared(t)
		return server.URL(server.Database(t, ""))
	default:
		return "sqlite://" + filepath.Join(t.TempDir(), "outbox.db")
	}
}

// with adds a database to a stack and sets it up.
func (s *stack) with(t *testing.T, url string) *shop {
	t.Helper()
	shop := &shop{stack: s, url: url}
	if code, _, errs := shop.run(t, "setup"); code != 0 {
		t.Fatalf("setup: %s", errs)
	}
	return shop
}

func (s *shop) sqlite() bool { return strings.HasPrefix(s.url, "sqlite") }

// flags point a command at the shop.
func (s *shop) flags(args ...string) []string {
	return s.stack.flags(slices.Concat([]string{"--database-url", s.url}, s.more, args)...)
}

// run runs a command to its end.
func (s *shop) run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return keyfold(context.Background(), "", append(args, s.flags()...)...)
}

// must runs a command that has to succeed and returns what it printed.
func (s *shop) must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := s.run(t, args...)
	if code != 0 {
		t.Fatalf("keyfold %s: exit code %d\n%s", strings.Join(args, " "), code, errs)
	}
	return out
}

// service runs a command in this process until the test's end.
func (s *shop) service(t *testing.T, args ...string) *daemon {
	t.Helper()
	return startDaemon(t, append(args, s.flags()...)...)
}

// spawn runs a command as a process of its own, which kill ends with SIGKILL. A
// process that is alive at the test's end is killed too.
func (s *shop) spawn(t *testing.T, args ...string) (d *daemon, kill func()) {
	t.Helper()
	program, log := asProcess(append(args, s.flags()...)...)
	program.Env = append(program.Env, s.env...)
	must.OK(t, program.Start())
	kill = sync.OnceFunc(func() {
		_ = program.Process.Kill()
		if err := program.Wait(); err == nil || program.ProcessState.Exited() {
			t.Errorf("keyfold %s had ended by itself: %v\n%s", strings.Join(args, " "), err, log)
		}
	})
	t.Cleanup(kill)
	return &daemon{t: t, log: log}, kill
}

// ingest starts the API; with SQLite, whose file has one relaying process, it
// relays too, else a relay runs beside it.
func (s *shop) ingest(t *testing.T) *daemon {
	t.Helper()
	if s.sqlite() {
		return s.service(t, "ingest", "--relay", "--http-addr=127.0.0.1:0").ready()
	}
	s.service(t, "relay").ready()
	return s.service(t, "ingest", "--http-addr=127.0.0.1:0").ready()
}

var listening = regexp.MustCompile(`"ingest listening","url":"([^"]+)"`)

// url returns where the API listens.
func (d *daemon) url() string {
	d.t.Helper()
	var found []string
	eventually(d.t, "the API listens", func() error {
		if found = listening.FindStringSubmatch(d.log.String()); found == nil {
			return fmt.Errorf("%s", d.log)
		}
		return nil
	})
	return found[1]
}

// sender keeps no connection, so that no goroutine outlives a test.
var sender = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

// answered is what the API says.
type answered struct {
	Code       int      `json:"-"`
	RetryAfter string   `json:"-"`
	Text       string   `json:"-"`
	Accepted   int      `json:"accepted"`
	Duplicate  int      `json:"duplicate"`
	MessageIDs []string `json:"message_ids"`
	Results    []struct {
		MessageID string `json:"message_id"`
	} `json:"results"` // of ?partial=true
}

// ids returns those of the stored events.
func (a answered) ids() []string {
	ids := a.MessageIDs
	for _, r := range a.Results {
		if r.MessageID != "" {
			ids = append(ids, r.MessageID)
		}
	}
	return ids
}

// post sends bodies, several as NDJSON.
func (d *daemon) post(bodies ...[]byte) answered {
	d.t.Helper()
	a, err := send(d.url(), "", bodies...)
	must.OK(d.t, err)
	return a
}

// accepted posts what has to be taken.
func (d *daemon) accepted(bodies ...[]byte) answered {
	d.t.Helper()
	a := d.post(bodies...)
	if a.Code != http.StatusAccepted || len(a.MessageIDs) != len(bodies) {
		d.t.Fatalf("%d %s", a.Code, a.Text)
	}
	return a
}

func send(url, token string, bodies ...[]byte) (answered, error) {
	kind := "application/json"
	if len(bodies) > 1 {
		kind = "application/x-ndjson"
	}
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(bytes.Join(bodies, []byte("\n"))))
	if err != nil {
		return answered{}, err
	}
	req.Header.Set("Content-Type", kind)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := sender.Do(req)
	if err != nil {
		return answered{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answered{}, err
	}
	a := answered{Code: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After"), Text: string(text)}
	_ = json.Unmarshal(text, &a) // a refusal has another form
	return a, nil
}

// open returns a pool of connections to the database, past keyfold.
func (s *shop) pool(t *testing.T) *sql.DB {
	t.Helper()
	driver, name := "sqlite", "file:"+strings.TrimPrefix(s.url, "sqlite://")+"?_pragma=busy_timeout(10000)"
	switch {
	case strings.HasPrefix(s.url, "postgres"):
		driver, name = "pgx", s.url
	case !s.sqlite():
		driver, name = "mysql", strings.Replace(strings.TrimPrefix(s.url, "mysql://"), "@", "@tcp(", 1)
		name = strings.Replace(name, "/", ")/", 1)
	}
	db, err := sql.Open(driver, name)
	must.OK(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// placed has a statement's arguments as the database's driver takes them.
func (s *shop) placed(statement string) string {
	parts := strings.Split(statement, "?")
	if !strings.HasPrefix(s.url, "postgres") {
		return statement
	}
	for i := range parts[1:] {
		parts[i] += fmt.Sprint("$", i+1)
	}
	return strings.Join(parts, "")
}

// exec runs a statement.
func (s *shop) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := s.pool(t).Exec(s.placed(statement), args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// count runs a query for one number.
func (s *shop) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := s.pool(t).QueryRow(s.placed(query), args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// bodies returns the stored messages, in the order they were stored.
func (s *shop) bodies(t *testing.T) (bodies [][]byte) {
	t.Helper()
	rows, err := s.pool(t).Query("SELECT body FROM user_interactions ORDER BY id")
	must.OK(t, err)
	defer rows.Close()
	for rows.Next() {
		var body []byte
		must.OK(t, rows.Scan(&body))
		bodies = append(bodies, body)
	}
	must.OK(t, rows.Err())
	return bodies
}

// allSent waits until every row is marked.
func (s *shop) allSent(t *testing.T) {
	t.Helper()
	pool := s.pool(t)
	eventually(t, "every row is marked as sent", func() error {
		var n int
		err := pool.QueryRow("SELECT COUNT(*) FROM user_interactions WHERE processed_to_queue = FALSE OR sent_at IS NULL").Scan(&n)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d are not", n)
		}
		return err
	})
}

// observer is a queue of the test's own that gets whatever is published for
// workers.
type observer struct {
	t     *testing.T
	conn  *amqp.Connection
	ch    *amqp.Channel
	queue string
}

func (s *shop) observe(t *testing.T) *observer {
	t.Helper()
	conn, err := amqp.Dial(s.dsn)
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	o := &observer{t: t, conn: conn}
	if o.ch, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	q, err := o.ch.QueueDeclare("observed", true, false, false, false, nil)
	if err == nil {
		err = o.ch.QueueBind(q.Name, "user.embedding.*", "user_events", false, nil)
	}
	must.OK(t, err)
	o.queue = q.Name
	return o
}

// next waits for the next message.
func (o *observer) next() (m amqp.Delivery) {
	o.t.Helper()
	eventually(o.t, "a message is published", func() error {
		var ok bool
		var err error
		if m, ok, err = o.ch.Get(o.queue, true); err == nil && !ok {
			err = fmt.Errorf("the queue is empty")
		}
		return err
	})
	return m
}

// all returns what there is.
func (o *observer) all() (messages []amqp.Delivery) {
	o.t.Helper()
	for {
		m, ok, err := o.ch.Get(o.queue, true)
		must.OK(o.t, err)
		if !ok {
			return messages
		}
		messages = append(messages, m)
	}
}

// parsed reads what was published: all of it has to be readable.
func (o *observer) parsed() (events []profile.Event) {
	o.t.Helper()
	for _, m := range o.all() {
		e, err := profile.ParseEvent(m.Body, time.Now())
		if err != nil || e.MessageID != m.MessageId && len(e.MessageID) <= 255 {
			o.t.Fatalf("published %q as %q: %v", m.Body, m.MessageId, err)
		}
		events = append(events, e)
	}
	return events
}
