package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/logtest"
	"keyfold/internal/testserver/must"
	"keyfold/source/sample"
)

// usage is what a process has used.
type usage struct {
	cpu      time.Duration // of all its threads
	resident int64         // bytes now
}

// usageOf reads what a process has used from /proc.
func usageOf(t *testing.T, pid int) (u usage) {
	t.Helper()
	const ticks = 100 // a second, on every Linux that Go runs on
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must.OK(t, err)
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')'):])
	for _, at := range []int{12, 13} { // user and system time
		n, err := strconv.ParseInt(string(fields[at]), 10, 64)
		must.OK(t, err)
		u.cpu += time.Duration(n) * time.Second / ticks
	}
	pages, err := strconv.ParseInt(string(fields[22]), 10, 64)
	must.OK(t, err)
	u.resident = pages * int64(os.Getpagesize())
	return u
}

// share is how much of a core was used between two readings.
func share(from, to usage, in time.Duration) string {
	return fmt.Sprintf("%.2f %% of a core, %d MB", 100*float64(to.cpu-from.cpu)/float64(in), to.resident>>20)
}

// Twenty browsers that each ask for a page every 2 s leave the dashboard's memory flat. What the
// dashboard and a worker at 1,000 events a minute use is told, with and without viewers.
//
// Promise(dashboard/many-viewers): Twenty viewers for an hour leave the dashboard's memory flat, below 110 MB.
func TestManyViewers(t *testing.T) {
	w := newWatched(t)
	span := 3 * time.Second // of each part
	if long {
		span = time.Minute
	}
	many, err := time.ParseDuration(os.Getenv("KEYFOLD_VIEWERS")) // that the twenty look, such as 1h
	if err != nil {
		many = span
	}
	worker, workerLog := asProcess(append(append([]string{"work"}, w.flags()...), quick)...)
	runs(t, worker)
	admin := foundIn(t, workerLog, adminAddr)
	args := append([]string{"dashboard", "--dashboard-addr=127.0.0.1:0"}, w.call("--processes", admin)[1:]...)
	dashboard, log := asProcess(append(args, w.flags()...)...)
	runs(t, dashboard)
	url := foundIn(t, log, dashboardAddr)
	stop := w.feedSlowly(t)
	defer stop()
	_ = w.read(url + "/")

	for _, viewers := range []int{0, 1, 20} {
		time.Sleep(span / 2) // the looks of the part before go on for 30 s
		if viewers == 20 {
			span = many
		}
		quiet, workerQuiet := usageOf(t, dashboard.Process.Pid), usageOf(t, worker.Process.Pid)
		highest := w.viewed(t, url, viewers, span, func() int64 { return usageOf(t, dashboard.Process.Pid).resident })
		after, workerAfter := usageOf(t, dashboard.Process.Pid), usageOf(t, worker.Process.Pid)
		t.Logf("%d viewers for %v: the dashboard %s; the worker %s", viewers, span, share(quiet, after, span), share(workerQuiet, workerAfter, span))
		// The race detector, which the long run is without, takes a multiple.
		if last, first := highest[len(highest)-1], highest[0]; last > first*13/10 || long && last > 110<<20 {
			t.Errorf("%d viewers: the memory grew, in quarters of the time: %d bytes at most", viewers, highest)
		}
	}
}

// runs starts a process, which is told to stop at the test's end.
func runs(t *testing.T, program *exec.Cmd) {
	t.Helper()
	must.OK(t, program.Start())
	t.Cleanup(func() {
		_ = program.Process.Signal(syscall.SIGTERM)
		if err := program.Wait(); err != nil {
			t.Errorf("%s: %v", program, err)
		}
	})
}

// foundIn waits until a log has what a pattern's group finds.
func foundIn(t *testing.T, log *logtest.Buffer, pattern *regexp.Regexp) (found string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the log has %v", pattern), func() error {
		all := pattern.FindStringSubmatch(log.String())
		if all == nil {
			return fmt.Errorf("logged %s", log)
		}
		found = all[1]
		return nil
	})
	return found
}

// viewed has viewers ask for pages every 2 s, and returns the most memory in each quarter of the
// time but the first, in which a process comes to its size.
func (w *watched) viewed(t *testing.T, url string, viewers int, span time.Duration, memory func() int64) (highest []int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	var all sync.WaitGroup
	for i := range viewers {
		all.Go(func() { view(ctx, t, url, i) })
	}
	highest = make([]int64, 4)
	began := time.Now()
	for ctx.Err() == nil {
		quarter := min(3, int(4*time.Since(began)/span))
		highest[quarter] = max(highest[quarter], memory())
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	all.Wait()
	return highest[1:]
}

// view is one browser, on one page.
func view(ctx context.Context, t *testing.T, url string, i int) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	page := url + []string{"/", "/workers", "/alerts", "/users/" + strconv.Itoa(i+1)}[i%4]
	tag := ""
	for ctx.Err() == nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("If-None-Match", tag)
		res, err := client.Do(r)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			t.Error(err)
			return
		case res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotModified:
			t.Errorf("%s: %d", page, res.StatusCode)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		tag = res.Header.Get("Etag")
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
}

// feedSlowly publishes 1,000 events a minute until it is stopped.
func (w *watched) feedSlowly(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	products := sample.Products()
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			var second [][]byte // in which 17 events come
			for i := range 17 {
				user := 17*n + i
				second = append(second, event(int32(user%500+1), profile.ProductView, products[user%len(products)].ID, time.Now(), fmt.Sprint("slow ", user)))
			}
			w.publish(t, second...)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	return func() { cancel(); <-done }
}
