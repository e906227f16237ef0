package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/processor"
	"keyfold/engine/notify/quiet"
	"keyfold/internal/testserver/must"
	"keyfold/service/notify/link"
	"keyfold/service/notify/notifier"
	"keyfold/service/notify/page"
	"keyfold/service/notify/ruleset"
	"keyfold/sink/ledger"
	"keyfold/sink/ledger/memory"
	"keyfold/source/httpapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shaky is a memory ledger that can be away.
type shaky struct {
	*memory.Ledger
	away    atomic.Bool
	lacking atomic.Bool // decisions cannot be read
	loads   atomic.Int64
	page    atomic.Int64 // of the last call of Records
}

func (s *shaky) fault() error {
	if s.away.Load() {
		return fmt.Errorf("%w: it is down", engine.ErrAway)
	}
	return nil
}

func (s *shaky) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	s.loads.Add(1)
	if err := errors.Join(s.fault(), ctx.Err()); err != nil {
		return nil, err
	}
	return s.Ledger.Load(ctx, asks)
}

func (s *shaky) Decision(ctx context.Context, id uuid.UUID) (*notify.Decided, error) {
	if err := s.fault(); err != nil || s.lacking.Load() {
		return nil, errors.Join(err, errDown)
	}
	return s.Ledger.Decision(ctx, id)
}

func (s *shaky) Decisions(ctx context.Context, ids []uuid.UUID) ([]notify.Decided, error) {
	if err := s.fault(); err != nil || s.lacking.Load() {
		return nil, errors.Join(err, errDown)
	}
	return s.Ledger.Decisions(ctx, ids)
}

func (s *shaky) Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error] {
	s.page.Store(int64(f.Page))
	if err := s.fault(); err != nil {
		return func(yield func(notify.Decided, error) bool) { yield(notify.Decided{}, err) }
	}
	return s.Ledger.Records(ctx, f)
}

func (s *shaky) Preferences(ctx context.Context, user string) (ledger.Preferences, error) {
	if err := s.fault(); err != nil {
		return ledger.Preferences{}, err
	}
	return s.Ledger.Preferences(ctx, user)
}

func (s *shaky) UpdatePreferences(ctx context.Context, user string, ifVersion int64, own notify.Preferences) (int64, error) {
	if err := s.fault(); err != nil {
		return 0, err
	}
	return s.Ledger.UpdatePreferences(ctx, user, ifVersion, own)
}

func (s *shaky) Forget(ctx context.Context, user string, at engine.Millis) error {
	if err := s.fault(); err != nil {
		return err
	}
	return s.Ledger.Forget(ctx, user, at)
}

func (s *shaky) Apply(ctx context.Context, reports []notify.Report) []error {
	if err := s.fault(); err != nil {
		errs := make([]error, len(reports))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	return s.Ledger.Apply(ctx, reports)
}

// fake is a broker with a worker behind it.
type fake struct {
	*notifier.Notifier
	mu        sync.Mutex
	published []*notify.Notification
	answers   []error // of the next Publish; nil: all are confirmed
	held      bool    // the worker decides nothing
	late      sync.WaitGroup
}

func (f *fake) Publish(_ context.Context, events []*notify.Notification) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.published = append(f.published, events...)
	if answers := f.answers; answers != nil {
		f.answers = nil
		return answers
	}
	if !f.held {
		f.late.Go(func() { _, _ = f.Decide(context.Background(), events) })
	}
	return make([]error, len(events))
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.published)
}

// nowhere confirms what it drops.
type nowhere struct{}

func (nowhere) Send(_ context.Context, d []notify.Dispatch) []error { return make([]error, len(d)) }

// world is the API over a fake broker and a memory ledger.
type world struct {
	ledger *shaky
	broker *fake
	api    *API
	stop   context.CancelFunc // of waiting
	http   http.Handler
	links  *link.Links
}

func newWorld(t testing.TB, tokens ...string) *world {
	t.Helper()
	zone, err := quiet.LoadZone("UTC")
	must.OK(t, err)
	set, err := ruleset.Read("", notify.Local{Zone: zone, Morning: 8 * 60, Digests: []quiet.Clock{9 * 60, 18 * 60}})
	must.OK(t, err)
	w := &world{ledger: &shaky{Ledger: memory.New()}, broker: &fake{}}
	config := notifier.DefaultConfig()
	config.Mark = time.Millisecond
	w.broker.Notifier, err = notifier.New(config, processor.Ports{Ledger: w.ledger.Ledger, Dispatcher: nowhere{}, Sets: ruleset.Fixed{Set: set}})
	if err == nil {
		err = w.broker.Start(t.Context())
	}
	must.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	t.Cleanup(func() {
		cancel()
		w.broker.late.Wait()
		if err := w.broker.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	log := slog.New(slog.DiscardHandler)
	key := filepath.Join(t.TempDir(), "key")
	must.OK(t, os.WriteFile(key, []byte("a key of a test, which has 32 bytes and more"), 0o600))
	w.links, err = (&link.Settings{KeyFile: key, URL: "https://shop.example/n", Days: 60}).Links(ruleset.Fixed{Set: set})
	must.OK(t, err)
	pages, err := page.New(w.ledger, ruleset.Fixed{Set: set}, w.links)
	must.OK(t, err)
	w.api = New(Ports{
		Pages:  pages,
		Ledger: w.ledger, Publisher: w.broker, Reports: w.ledger, Erases: true, Sets: ruleset.Fixed{Set: set}, Canceller: canceller{w}, Stop: ctx, Log: log,
		Ready: func(context.Context) error { return w.ledger.fault() },
	})
	c := httpapi.DefaultConfig()
	c.Tokens = tokens
	server, err := httpapi.NewServer(c, httpapi.NewHandler(w.api, log))
	must.OK(t, err)
	w.http = server
	return w
}

// canceller is a process of its own on the ledger, which can be away.
type canceller struct{ *world }

func (c canceller) Cancel(ctx context.Context, all []notify.Cancellation) []processor.Verdict {
	if err := c.ledger.fault(); err != nil {
		return slices.Repeat([]processor.Verdict{{Outcome: processor.Retry, Err: err}}, len(all))
	}
	return c.broker.Processor.Cancel(ctx, all)
}

// call is a request.
type call struct {
	method, path, kind, body string
	header                   map[string]string
}

// ask makes a request, checks the answer against the description, and reads it.
func (w *world) ask(t testing.TB, c call, into any) (int, http.Header) {
	t.Helper()
	r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
	r.Host = "localhost"
	if c.kind != "" {
		r.Header.Set("Content-Type", c.kind)
	}
	for name, value := range c.header {
		r.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	w.http.ServeHTTP(answer, r)
	checkDescribed(t, r, answer)
	if into != nil {
		if err := json.Unmarshal(answer.Body.Bytes(), into); err != nil {
			t.Fatalf("%s: %v", answer.Body, err)
		}
	}
	return answer.Code, answer.Header()
}

// posted is every answer to a POST of notifications.
type posted struct {
	Accepted  int         `json:"accepted"`
	Duplicate int         `json:"duplicate"`
	Refused   int         `json:"refused"`
	EventIDs  []uuid.UUID `json:"event_ids"`
	Decisions []Decision  `json:"decisions"`
	Results   []result    `json:"results"`
	Errors    []httpapi.Fault
}

func (w *world) post(t testing.TB, body string) (int, posted) {
	t.Helper()
	var p posted
	status, _ := w.ask(t, call{method: "POST", path: NotificationsPath, kind: "application/json", body: body}, &p)
	return status, p
}

// decidedNow posts a body and waits for its decisions.
func (w *world) decidedNow(t testing.TB, body string) []Decision {
	t.Helper()
	var p posted
	status, header := w.ask(t, call{
		method: "POST", path: NotificationsPath, kind: "application/json", body: body, header: map[string]string{"Prefer": "wait=10"},
	}, &p)
	if status != 200 || header.Get("Preference-Applied") != "wait=10" {
		t.Fatalf("status %d, Preference-Applied %q: %+v", status, header.Get("Preference-Applied"), p)
	}
	return p.Decisions
}

// event is a notification, without an event_id where id is zero. All have one time: one that is posted again is
// the same event, whatever the clock says.
func event(id uuid.UUID, user, title string) string {
	own := ""
	if id != uuid.Nil {
		own = fmt.Sprintf(`"event_id":%q,`, id)
	}
	return fmt.Sprintf(`{%s"user_id":%q,"event_type":"SECURITY","title":%q,"source":"test","channel":["push"],"timestamp":"1999-12-31T23:00:00Z"}`,
		own, user, title)
}

var errDown = errors.New("it is down")
