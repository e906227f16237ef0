package app

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"keyfold/engine/metric"
	"keyfold/internal/testserver/must"
)

// fake is a service whose counters a test sets.
type fake struct {
	fault          error
	notes          []string
	starting       bool
	events, waits  int64
	readsOfWaiting int
}

func (f *fake) Ready() error         { return f.fault }
func (f *fake) Notes() []string      { return f.notes }
func (f *fake) Register(*metric.Set) {}

func (f *fake) Figures() []Figure {
	if f.starting {
		return nil
	}
	return []Figure{
		{Name: "events", Read: func() int64 { return f.events }},
		{Name: "waiting", Gauge: true, Read: func() int64 { f.readsOfWaiting++; return f.waits }},
	}
}

// A minute has a line where something was done, waits, or is at fault.
//
// Promise(shutdown/one-line)
func TestSummaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		f := &fake{starting: true, fault: errors.New("waiting for the store")}
		s := &summary{log: slog.New(slog.NewTextHandler(&out, nil)), of: f}
		minute := func(want string) {
			t.Helper()
			out.Reset()
			s.minute()
			_, line, _ := strings.Cut(out.String(), "msg=")
			if line != want {
				t.Errorf("logged %q, want %q", line, want)
			}
		}
		minute("\"the last minute\" not_ready=\"waiting for the store\"\n")
		f.starting, f.fault, f.events = false, nil, 5
		minute("\"the last minute\" events=5 waiting=0\n")
		minute("")
		f.events, f.waits = 7, 2
		minute("\"the last minute\" events=2 waiting=2\n")
		minute("\"the last minute\" events=0 waiting=2\n")
		f.waits = -1 // not known: the server is away
		minute("")
		f.fault = errors.New("away")
		minute("\"the last minute\" events=0 not_ready=away\n")
		f.fault, f.notes = nil, []string{"API: away", "Redis: away"}
		minute("\"the last minute\" events=0 notes=\"API: away; Redis: away\"\n")
		f.notes = nil
		minute("")
		f.events = 9
		out.Reset()
		stop := make(chan struct{})
		go s.run(stop)
		time.Sleep(5 * summaryInterval)
		synctest.Wait()
		if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "events=2") {
			t.Errorf("in five minutes, one of them with events: %s", &out)
		}
		out.Reset()
		f.readsOfWaiting = 0
		close(stop)
		synctest.Wait()
		if !strings.HasSuffix(out.String(), "msg=\"since the start\" events=9\n") || f.readsOfWaiting != 0 {
			t.Errorf("at the stop: %s", &out)
		}
	})
}

// The admin endpoint's root names its paths, and each of them is there.
func TestAdminListsItsPaths(t *testing.T) {
	var out bytes.Buffer
	a := &App{Servers: Servers{Admin: "127.0.0.1:0"}, Log: slog.New(slog.NewJSONHandler(&out, nil)), LogLevel: new(slog.LevelVar)}
	err := a.WithAdmin(&fake{events: 3}, func() error {
		url := "http://" + regexp.MustCompile(`"addr":"([^"]+)"`).FindStringSubmatch(out.String())[1]
		get := func(path string) (int, string) {
			resp, err := http.Get(url + path)
			must.OK(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			must.OK(t, err)
			return resp.StatusCode, string(body)
		}
		code, list := get("/")
		named := regexp.MustCompile(`(?m)^/[\w-]+`).FindAllString(list, -1)
		if code != http.StatusOK || len(named) != 4 {
			t.Errorf("%d %s", code, list)
		}
		for _, path := range named {
			if code, body := get(path); code != http.StatusOK {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
		if code, _ := get("/other"); code != http.StatusNotFound {
			t.Errorf("another path: %d", code)
		}
		return nil
	})
	if err != nil || !strings.Contains(out.String(), `"since the start","events":3`) {
		t.Errorf("%v: %s", err, &out)
	}
}
