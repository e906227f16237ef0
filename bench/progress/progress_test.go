package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clock is a time that the test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func (c *clock) pass(d time.Duration) { c.at = c.at.Add(d) }

// run feeds a report of three packages, two of them with known times.
func run() (*report, *clock, *strings.Builder) {
	var out strings.Builder
	c := &clock{time.Unix(0, 0)}
	earlier := map[string]float64{"": 200, "m/slow": 78, "m/quick": 20}
	return newReport(&out, c.now, earlier, []string{"m/slow", "m/quick", "m/new"}), c, &out
}

// shows feeds an event and compares what is printed.
func shows(t *testing.T, r *report, out *strings.Builder, e event, want ...string) {
	t.Helper()
	out.Reset()
	r.add(e)
	for _, text := range want {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is missing in:\n%s", text, out)
		}
	}
}

func TestEstimate(t *testing.T) {
	r, c, out := run()
	r.begin([]string{"m/left"})
	if text := out.String(); !strings.HasPrefix(text, "3 packages with tests; about 3 min on 2 cores\n") || !strings.HasSuffix(text, ": m/left\n") {
		t.Errorf("%q", out)
	}
	r.add(event{Action: "start", Package: "m/slow"})
	r.add(event{Action: "start", Package: "m/quick"})
	c.pass(40 * time.Second)
	r.add(event{Action: "output", Package: "m/quick", Output: "ok  \tm/quick\t31.0s\n"})
	// 40 of 100 expected seconds are left: 38 of m/slow, 2 of m/new.
	shows(t, r, out, event{Action: "pass", Package: "m/quick", Elapsed: 31}, "ok    m/quick  31.0s", "40s, 1 of 3, about 27 s left\n")
	c.pass(50 * time.Second)
	r.add(event{Action: "output", Package: "m/slow", Output: "ok  \tm/slow\t90.0s\n"})
	shows(t, r, out, event{Action: "pass", Package: "m/slow", Elapsed: 90}, "1m30s, 2 of 3, about 5 s left\n")
	shows(t, r, out, event{Action: "pass", Package: "m/new", Elapsed: 1}, "3 of 3\n")
	r.spent = 55
	r.finish(5)
	if !strings.Contains(out.String(), "3 packages passed in 1m30s") {
		t.Error(out)
	}
	if got := r.times(); got[""] != 90 || got["m/quick"] != 31 || len(got) != 4 {
		t.Errorf("%+v", got)
	}
}

// What runs is said where no package has ended for a while.
func TestStill(t *testing.T) {
	r, c, out := run()
	c.pass(quietFor - time.Second)
	r.still()
	if out.Len() != 0 {
		t.Errorf("too early: %q", out)
	}
	c.pass(time.Second)
	r.still()
	if !strings.Contains(out.String(), "building") {
		t.Errorf("%q", out)
	}
	out.Reset()
	r.add(event{Action: "start", Package: "m/slow"})
	c.pass(quietFor)
	r.still()
	if !strings.Contains(out.String(), "m/slow 15s") {
		t.Errorf("%q", out)
	}
}

// The real go command, with tests that pass, fail, hang the package and do not build:
// its exit code is kept, and of the failed ones everything is printed.
func TestGoTest(t *testing.T) {
	folder := module(t, map[string]string{
		"busy/busy_test.go":   busy,
		"shot/shot_test.go":   shot,
		"good/good_test.go":   "package good\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) { t.Log(\"quiet\") }\n",
		"bad/bad_test.go":     "package bad\n\nimport \"testing\"\n\nfunc TestFine(t *testing.T) { t.Log(\"quiet\") }\n\nfunc TestBad(t *testing.T) { t.Log(\"some context\"); t.Run(\"part\", func(t *testing.T) { t.Error(\"is wrong\") }) }\n",
		"dies/dies_test.go":   "package dies\n\nimport \"testing\"\n\nfunc TestDies(*testing.T) { panic(\"it died\") }\n",
		"broken/b_test.go":    "package broken\n\nimport \"testing\"\n\nfunc TestBroken(*testing.T) { missing() }\n",
		"server/server.go":    "package server\n",
		"left/left_test.go":   "package left\n\nimport (\n\t\"testing\"\n\n\t_ \"m/server\"\n)\n\nfunc TestLeft(t *testing.T) { t.Error(\"was not left out\") }\n",
		"without/no_tests.go": "package without\n",
	})
	var out strings.Builder
	times := filepath.Join(folder, "times.json")
	c := cli{Name: "a test's", Without: []string{"m/server"}, Record: times, Args: []string{"-count=1", "./..."}}
	err := c.run(t.Context(), &out)
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 1 {
		t.Errorf("it ends with %v", err)
	}
	for _, want := range []string{
		"6 packages with tests", "ok    m/good", "ok    m/busy", "signal: killed", "FAIL  m/shot", "some context", "--- FAIL: TestBad/part", "is wrong", "FAIL  m/bad",
		"panic: it died", "goroutine ", "undefined: missing", "[build failed]", "4 of 6 packages failed", "left out of this step: m/left\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
	tellsCosts(t, out.String(), 5) // one is not built
	for _, not := range []string{cpuLine, "quiet", "was not left out", "no test files"} {
		if strings.Contains(out.String(), not) {
			t.Errorf("%q is in:\n%s", not, &out)
		}
	}
	if _, err := os.Stat(times); err == nil {
		t.Error("the times of a failed run were kept")
	}
	out.Reset()
	c.Args = []string{"-count=1", "./good"}
	if err := c.run(t.Context(), &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if text, err := os.ReadFile(times); err != nil || !strings.Contains(string(text), "\"m/good\"") {
		t.Errorf("%v, %s", err, text)
	}
}
