package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/cli"
	"keyfold/internal/settings"
	"keyfold/internal/testserver/must"

	"keyfold/shard"
)

// panickingStore is a programming error.
type panickingStore struct{ profile.Profiles }

func (panickingStore) Load(context.Context, []int32) ([]*profile.Profile, error) { panic("a test's") }

// testNode opens a node on a folder of its own, with small windows that close soon.
func testNode(ctx context.Context, t *testing.T) *runtime {
	t.Helper()
	c := settings.Config{Processor: processor.DefaultConfig(), Shard: shard.DefaultConfig(), Retry: settings.Retry{Attempts: 5, Delay: time.Second}, Timeout: 2 * time.Second}
	c.Processor.Dimensions, c.Processor.Model, c.Shard.MaxHeld = 16, embedderModel, 4
	c.Shard.Window, c.Shard.MaxDelay = 20*time.Millisecond, 50*time.Millisecond
	n, err := openRuntime(&app{
		ctx: ctx, Console: cli.Console{Streams: cli.Streams{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}}, data: t.TempDir(), config: c,
		log: slog.New(slog.DiscardHandler),
	})
	must.OK(t, err)
	return n
}

// serving starts the way of posts.
func (n *runtime) serving(t *testing.T) {
	t.Helper()
	err := n.start(shard.WallClock)
	if err == nil {
		n.intake, err = openHTTPIngest(n)
	}
	must.OK(t, err)
	n.intake.start()
}

// searches makes one search of each of so many users.
func searches(t *testing.T, users int, id string) (entries []profile.Entry) {
	t.Helper()
	for k := range users {
		body := fmt.Appendf(nil, `{"user_id":%d,"event_type":"search","search_phrase":"mug","occurred_at":"2026-02-10T14:30:00Z","message_id":"%s-%d"}`, k+1, id, k)
		e, err := profile.ParseEvent(body, time.Now())
		must.OK(t, err)
		entries = append(entries, profile.Entry{Body: body, Event: e})
	}
	return entries
}

// A fault that nobody can work around ends a program that serves, and says why.
//
// Promise(shutdown/lite)
func TestAFaultEndsTheProgram(t *testing.T) {
	n := testNode(t.Context(), t)
	n.ports.Profiles = panickingStore{n.ports.Profiles}
	n.serving(t)
	if _, err := n.intake.store.Add(t.Context(), searches(t, 2, "m")); err != nil {
		t.Fatal(err)
	}
	<-n.failed.Done()
	done := make(chan error, 1)
	go func() { done <- (&runCmd{}).finish(n, time.Now(), false, nil) }()
	select {
	case err := <-done:
		if err == nil || strings.Count(err.Error(), "a test's") != 1 || strings.Contains(err.Error(), "WORKER_SHUTDOWN_TIMEOUT") {
			t.Errorf("it ended with %v: want the fault once, and no advice on the shutdown", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for verdicts that nobody gives")
	}
}

// A client that sends half a request and nothing more is no fault of the stop.
//
// Promise(shutdown/in-order)
func TestStopWithASilentSender(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	url, stop := server(t, small, "--data", filepath.Join(t.TempDir(), "data"), "--products", shopFile(t), "--shutdown-timeout=2")
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	must.OK(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
	for _, e := range searches(t, 3, "m") {
		if code, answer := post(t, url, string(e.Body)); code != http.StatusAccepted {
			t.Fatal(answer)
		}
	}
	if out := stop(); !strings.Contains(out, `"folded":3`) { // the exit code is looked at there
		t.Errorf("%s", out)
	}
}

// awayStore takes no write.
type awayStore struct{ profile.Profiles }

func (awayStore) Swap(_ context.Context, p []*profile.Profile) []error {
	errs := make([]error, len(p))
	for i := range errs {
		errs[i] = errors.New("no room on the volume")
	}
	return errs
}

// A store that fails, posts that wait for room, and then SIGTERM: the program is
// gone when its time is up.
//
// Promise(shutdown/lite): keyfold-lite ends at the second signal likewise; its file keeps what was not
// folded.
func TestShutdownWhilePostsWaitForRoom(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	n := testNode(ctx, t)
	n.ports.Profiles = awayStore{n.ports.Profiles} // the store is away
	n.serving(t)
	const posts, events = 2, 4
	for i := range posts { // the second waits for room
		if _, err := n.intake.store.Add(t.Context(), searches(t, events, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
		for n.inbox.Stats().Stored < int64((i+1)*events) {
			time.Sleep(time.Millisecond)
		}
	}
	cancel() // SIGTERM
	done := make(chan error, 1)
	go func() {
		settling, release := context.WithTimeout(context.Background(), n.config.Timeout/2)
		defer release()
		done <- errors.Join(n.intake.settle(settling), n.quiesce(), n.closeFile())
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("events were held and nobody said so")
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the store for ever")
	}
}
