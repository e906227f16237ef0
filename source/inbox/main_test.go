package inbox

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
)

func TestMain(m *testing.M) {
	if os.Getenv("KEYFOLD_SOAK") == "" {
		_ = flag.Set("rapid.checks", "25") // which package rapid defines
	}
	goleak.VerifyTestMain(m)
}

// groupWriter is a small group-committing writer: one goroutine, strict order.
// A group in which a function or the commit fails is rolled back and run again
// function by function.
type groupWriter struct {
	conn *sql.Conn
	mu   sync.Mutex
	cond *sync.Cond
	jobs []job
	// commit, where set, is asked before each commit.
	commit func() error
	paused bool
	closed bool
	ended  chan struct{}
}

type job struct {
	fn   func(Tx) error
	done func(error)
}

type connTx struct{ conn *sql.Conn }

func (t connTx) Exec(q string, args ...any) (sql.Result, error) {
	return t.conn.ExecContext(context.Background(), q, args...)
}

func (t connTx) Query(q string, args ...any) (*sql.Rows, error) {
	return t.conn.QueryContext(context.Background(), q, args...)
}

func newGroupWriter(conn *sql.Conn) *groupWriter {
	w := &groupWriter{conn: conn, ended: make(chan struct{})}
	w.cond = sync.NewCond(&w.mu)
	go w.run()
	return w
}

var errWriterClosed = errors.New("writer closed")

func (w *groupWriter) Enqueue(fn func(Tx) error, done func(error)) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		done(errWriterClosed) // on the caller's goroutine: allowed by nobody, survived by all
		return
	}
	defer w.mu.Unlock()
	w.jobs = append(w.jobs, job{fn, done})
	w.cond.Signal()
}

func (w *groupWriter) Write(ctx context.Context, fn func(Tx) error) error {
	done := make(chan error, 1)
	w.Enqueue(fn, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *groupWriter) run() {
	defer close(w.ended)
	for {
		w.mu.Lock()
		for !w.closed && (len(w.jobs) == 0 || w.paused) {
			w.cond.Wait()
		}
		if len(w.jobs) == 0 || w.paused {
			w.mu.Unlock()
			return
		}
		group := w.jobs
		w.jobs = nil
		w.mu.Unlock()
		if err := w.transact(group); err == nil {
			for _, j := range group {
				j.done(nil)
			}
			continue
		}
		for i := range group {
			group[i].done(w.transact(group[i : i+1]))
		}
	}
}

func (w *groupWriter) transact(group []job) (err error) {
	tx := connTx{w.conn}
	if _, err := tx.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, j := range group {
		if err = j.fn(tx); err != nil {
			break
		}
	}
	w.mu.Lock()
	fault := w.commit
	w.mu.Unlock()
	if err == nil && fault != nil {
		err = fault()
	}
	if err == nil {
		_, err = tx.Exec("COMMIT")
	}
	if err != nil {
		_, _ = tx.Exec("ROLLBACK")
	}
	return err
}

// setCommit sets the fault of coming commits.
func (w *groupWriter) setCommit(f func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commit = f
}

// pause keeps jobs in the queue until resume.
func (w *groupWriter) pause(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = on
	w.cond.Broadcast()
}

// close works the queue off unless it is paused: then its jobs are lost, as in
// a crash.
func (w *groupWriter) close() {
	w.mu.Lock()
	w.closed = true
	w.cond.Broadcast()
	w.mu.Unlock()
	<-w.ended
}

// bench is an inbox on a file.
type bench struct {
	*Inbox
	writer *groupWriter
	path   string
	write  *sql.DB
	read   *sql.DB
	once   sync.Once
}

type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// patient are retries that no test waits for.
var patient = Config{RetryDelay: 5 * time.Second, MaxRetries: 5}

func start(t fataler, path string, config Config, profiles Loader) *bench {
	t.Helper()
	open := func(pragmas string) *sql.DB {
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)&"+pragmas)
		must.OK(t, err)
		return db
	}
	b := &bench{path: path}
	b.write = open("_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	b.read = open("_pragma=query_only(1)")
	conn, err := b.write.Conn(context.Background())
	must.OK(t, err)
	b.writer = newGroupWriter(conn)
	b.Inbox, err = New(context.Background(), Ports{
		Writer: b.writer, Reader: b.read, Profiles: profiles, Log: slog.New(slog.DiscardHandler),
	}, config)
	must.OK(t, err)
	return b
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := start(t, filepath.Join(t.TempDir(), "inbox.db"), patient, nil)
	t.Cleanup(b.stop)
	return b
}

// stop ends everything in order; kill as a crash would: marks are lost.
func (b *bench) stop() {
	b.once.Do(func() {
		b.Stop()
		b.writer.close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = b.Close(ctx)
		_ = b.writer.conn.Close()
		_ = b.write.Close()
		_ = b.read.Close()
	})
}

func (b *bench) kill() {
	b.writer.pause(true)
	b.stop()
}

// event returns a valid arrival of a user, numbered.
func event(user, n int) Arrival {
	body := fmt.Appendf(nil, `{"user_id":%d,"event_type":"product_view","product_id":%d,"occurred_at":"2026-02-10T14:%02d:%02d+00:00"}`,
		user, n+1, n/60%60, n%60)
	e, err := profile.ParseEvent(body, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	return Arrival{Body: body, Event: e, Err: err}
}

func events(user, first, n int) []Arrival {
	all := make([]Arrival, n)
	for i := range all {
		all[i] = event(user, first+i)
	}
	return all
}

func malformed(body string) Arrival {
	e, err := profile.ParseEvent([]byte(body), time.Now())
	return Arrival{Body: []byte(body), Event: e, Err: err}
}

func (b *bench) add(t fataler, arrivals ...Arrival) []profile.Delivery {
	t.Helper()
	_, deliveries, err := b.Add(context.Background(), arrivals)
	must.OK(t, err)
	return deliveries
}

func settle(deliveries []profile.Delivery, o engine.Outcome) {
	for _, d := range deliveries {
		d.Settler.Settle(engine.Verdict{Outcome: o})
	}
}

func (b *bench) idle(t fataler) {
	t.Helper()
	must.OK(t, b.Idle(context.Background()))
}

func (b *bench) pending(t fataler) int {
	t.Helper()
	n, err := b.Pending(context.Background())
	must.OK(t, err)
	return n
}

// recovered starts an inbox on the file and returns what it redelivers.
func recovered(t fataler, b *bench) []profile.Delivery {
	t.Helper()
	var all []profile.Delivery
	err := b.Recover(context.Background(), func(_ context.Context, ds []profile.Delivery) error {
		all = append(all, ds...)
		return nil
	})
	must.OK(t, err)
	return all
}

// deadEvent is a row of dead.
type deadEvent struct {
	MessageID string // "" for a malformed body
	UserID    int32  // 0 for a malformed body
	Reason    string
	Detail    string
	Body      []byte
	FirstAt   engine.Millis
	LastAt    engine.Millis
	Times     int // how often this very body came
}

func (b *bench) letters(t fataler) (all []deadEvent) {
	t.Helper()
	err := each(b.read.Query, func(rows *sql.Rows) error {
		var d deadEvent
		err := rows.Scan(&d.MessageID, &d.UserID, &d.Reason, &d.Detail, &d.Body, &d.FirstAt, &d.LastAt, &d.Times)
		all = append(all, d)
		return err
	}, `SELECT coalesce(message_id, ''), coalesce(user_id, 0), reason, detail, body, first_at, last_at, times FROM dead ORDER BY id`)
	must.OK(t, err)
	return all
}

func ids(deliveries []profile.Delivery) []string {
	all := make([]string, len(deliveries))
	for i := range deliveries {
		all[i] = deliveries[i].Event.MessageID
	}
	return all
}
