package status

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"keyfold/service/status"
)

// A clock that differs is told where the difference is certain: the header has whole seconds, and an
// answer takes its time.
func TestClockOff(t *testing.T) {
	began := time.Date(2026, 11, 23, 12, 0, 0, 400_000_000, time.UTC)
	for _, c := range []struct {
		date string
		took time.Duration
		want time.Duration
	}{
		{"Mon, 23 Nov 2026 12:00:00 GMT", 0, 0},
		{"Mon, 23 Nov 2026 12:00:02 GMT", 0, 0},
		{"Mon, 23 Nov 2026 12:00:03 GMT", 0, 2600 * time.Millisecond},
		{"Mon, 23 Nov 2026 12:00:03 GMT", time.Second, 0}, // it may have been written at the end
		{"Mon, 23 Nov 2026 11:59:58 GMT", 0, 0},
		{"Mon, 23 Nov 2026 11:59:57 GMT", 0, -2400 * time.Millisecond},
		{"Mon, 23 Nov 2026 11:59:57 GMT", time.Minute, -2400 * time.Millisecond},
		{"Mon, 23 Nov 2026 13:00:00 GMT", 0, time.Hour - 400*time.Millisecond},
		{"", 0, 0},
		{"yesterday", 0, 0},
	} {
		if got := clockOff(c.date, began, began.Add(c.took)); got != c.want {
			t.Errorf("%q after %v: %v, want %v", c.date, c.took, got, c.want)
		}
	}
}

// `status` and the page of processes say that a process's clock differs, whether it is ready or not.
//
// Promise(monitoring/clocks): A process whose clock is over 2 s off is told by `keyfold status` and on the dashboard, by
// how much and with the cure.
func TestClocksThatDifferAreTold(t *testing.T) {
	for off, says := range map[time.Duration]string{0: "", time.Hour: "ahead of this machine's", -time.Hour: "behind this machine's"} {
		for _, ready := range []int{http.StatusOK, http.StatusServiceUnavailable} {
			s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
				if r.URL.Path == "/readyz" {
					rw.WriteHeader(ready)
				}
				fmt.Fprintln(rw, "ok")
			}))
			r := &status.Report{Processes: lookAtProcesses(t.Context(), []string{s.Listener.Addr().String()}, nil)}
			s.Close()
			judge(r)
			told := ""
			for _, p := range r.Problems {
				if p.Runbook == "clocks-that-differ" {
					told = p.Text
				}
			}
			if (told == "") != (says == "") || !strings.Contains(told, says) || len(r.Processes[0].Remarks) > 0 != (says != "") {
				t.Errorf("%v, %d: %q, %+v", off, ready, told, r.Processes[0])
			}
		}
	}
}
