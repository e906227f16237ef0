package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"keyfold/internal/testserver/process"
	"keyfold/proof/stack"
)

// worker is one process.
type worker struct {
	*process.Process
	slot  int
	log   string
	armed string // its failpoints

	mu      sync.Mutex
	reason  string // why it is about to end; "" while it is to run on
	addr    string
	metrics map[string]float64
	wrong   string // of the first scrape whose books did not balance
}

// verdict says how a worker ended, and what was wrong with that.
func (w *worker) verdict() (how, fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	code, ended := endOf(w.Err())
	killed := ended == syscall.SIGKILL
	switch {
	case killed && strings.Contains(w.armed, "=exit") && (w.reason == "" || w.reason == sigterm):
		return "killed by a failpoint", ""
	case killed && w.reason != "":
		return w.reason, ""
	case code == 0 && w.reason != "", ended == syscall.SIGTERM && w.reason == sigterm:
		return w.reason, "" // by the signal itself where the worker had only just begun
	case code == 1:
		// What a supervisor sees when a server is away at the wrong moment.
		return exitFailure, ""
	default:
		return "unexpected", fmt.Sprintf("process %d ended by itself, exit code %d, signal %v: see %s", w.slot, code, ended, w.log)
	}
}

// endOf tells how a process has ended: by its exit code, or by the signal.
func endOf(err error) (code int, by syscall.Signal) {
	if err == nil {
		return 0, 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return -1, 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		by = status.Signal()
	}
	return exit.ExitCode(), by
}

// killed reports whether SIGKILL has ended a process.
func killed(err error) bool {
	_, by := endOf(err)
	return by == syscall.SIGKILL
}

// expect notes why a worker is about to end.
func (w *worker) expect(reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reason == "" {
		w.reason = reason
	}
}

var (
	adminAddr = regexp.MustCompile(`"admin endpoint","addr":"([^"]+)"`)
	asking    = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
)

// get asks the admin endpoint.
func (w *worker) get(path string) (int, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.addr == "" {
		text, _ := os.ReadFile(w.log)
		found := adminAddr.FindSubmatch(text[:min(len(text), 16<<10)])
		if found == nil {
			return 0, "not started"
		}
		w.addr = string(found[1])
	}
	resp, err := asking.Get("http://" + w.addr + path)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// ready waits until the worker consumes.
func (w *worker) ready(ctx context.Context) error {
	return stack.Poll(ctx, 50*time.Millisecond, func() (bool, error) {
		switch code, body := w.get("/readyz"); {
		case code == http.StatusOK:
			return true, nil
		case !w.Running():
			return false, fmt.Errorf("the worker ended: see %s", w.log)
		case ctx.Err() != nil:
			return false, fmt.Errorf("the worker is not ready: %s: %w", body, ctx.Err())
		default:
			return false, nil
		}
	})
}
