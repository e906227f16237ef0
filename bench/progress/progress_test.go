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

// run feeds a report of three packages with known times.
func run(last times) (*report, *clock, *strings.Builder) {
	var out strings.Builder
	c := &clock{time.Unix(0, 0)}
	chosen := []pkg{{path: "m/slow", tests: true}, {path: "m/quick", tests: true}, {path: "m/new", tests: true}, {path: "m/none"}}
	return newReport(&out, c.now, last, chosen), c, &out
}

var known = times{Total: 200, Packages: map[string]float64{"m/slow": 78, "m/quick": 20}}

func ends(t *testing.T, r *report, out *strings.Builder, e event, want ...string) {
	t.Helper()
	out.Reset()
	r.add(&e)
	for _, text := range want {
		if !strings.Contains(out.String(), text) {
			t.Errorf("%q is missing in:\n%s", text, out)
		}
	}
}

func TestEstimate(t *testing.T) {
	r, c, out := run(known)
	r.begin(nil)
	if want := "3 packages with tests; about 3 min\n"; out.String() != want {
		t.Errorf("%q, want %q", out, want)
	}
	r.add(&event{Action: "start", Package: "m/slow"})
	r.add(&event{Action: "start", Package: "m/quick"})
	c.pass(40 * time.Second)
	r.add(&event{Action: "output", Package: "m/quick", Output: "ok  \tm/quick\t31.0s\n"})
	// 2 s of 20 are left over of 78+20+2 that were expected; of 78 s 40 have passed.
	ends(t, r, out, event{Action: "pass", Package: "m/quick", Elapsed: 31}, "ok    m/quick  31.0s", "40s, 1 of 3, about 27 s left")
	c.pass(50 * time.Second)
	r.add(&event{Action: "output", Package: "m/slow", Output: "ok  \tm/slow\t90.0s\n"})
	ends(t, r, out, event{Action: "pass", Package: "m/slow", Elapsed: 90}, "1m30s, 2 of 3, about 15 s left")
	out.Reset()
	r.add(&event{Action: "output", Package: "m/none", Output: "?   \tm/none\t[no test files]\n"})
	r.add(&event{Action: "skip", Package: "m/none"})
	if out.Len() != 0 {
		t.Errorf("a package without tests: %q", out)
	}
	ends(t, r, out, event{Action: "pass", Package: "m/new", Elapsed: 1}, "3 of 3\n")
	r.finish()
	if !strings.Contains(out.String(), "3 packages passed in 1m30s") {
		t.Error(out)
	}
	if got := r.times(); got.Total != 90 || got.Packages["m/quick"] != 31 || len(got.Packages) != 3 {
		t.Errorf("%+v", got)
	}
}

// Before the first run there is no estimate, and later there is one.
func TestEstimateOfTheFirstRun(t *testing.T) {
	r, c, out := run(times{})
	r.begin([]pkg{{path: "m/left", tests: true}, {path: "m/empty"}})
	if text := out.String(); !strings.Contains(text, "not known yet") || !strings.Contains(text, "m/left") || strings.Contains(text, "m/empty") {
		t.Errorf("%q", out)
	}
	c.pass(time.Minute)
	ends(t, r, out, event{Action: "pass", Package: "m/quick", Elapsed: 1}, "1m0s, 1 of 3, about 2 min left")
}

// What runs is said where no package has ended for a while.
func TestStill(t *testing.T) {
	r, c, out := run(known)
	c.pass(5 * time.Second)
	r.still(10 * time.Second)
	if out.Len() != 0 {
		t.Errorf("after 5 s: %q", out)
	}
	c.pass(5 * time.Second)
	r.still(10 * time.Second)
	if !strings.Contains(out.String(), "building") {
		t.Errorf("%q", out)
	}
	out.Reset()
	r.add(&event{Action: "start", Package: "m/slow"})
	c.pass(10 * time.Second)
	r.still(10 * time.Second)
	if !strings.Contains(out.String(), "m/slow 10s") {
		t.Errorf("%q", out)
	}
	stop := r.tick(time.Hour)
	stop()
}

// The real go command, with tests that pass, fail, hang the package and do not build:
// its exit code is kept, and of the failed ones everything is printed.
func TestGoTest(t *testing.T) {
	module := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":              "module m\n\ngo 1.26\n",
		"good/good_test.go":   "package good\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) { t.Log(\"quiet\") }\n",
		"bad/bad_test.go":     "package bad\n\nimport \"testing\"\n\nfunc TestFine(t *testing.T) { t.Log(\"quiet\") }\n\nfunc TestBad(t *testing.T) { t.Log(\"some context\"); t.Run(\"part\", func(t *testing.T) { t.Error(\"is wrong\") }) }\n",
		"dies/dies_test.go":   "package dies\n\nimport \"testing\"\n\nfunc TestDies(*testing.T) { panic(\"it died\") }\n",
		"broken/b_test.go":    "package broken\n\nimport \"testing\"\n\nfunc TestBroken(*testing.T) { missing() }\n",
		"server/server.go":    "package server\n",
		"left/left_test.go":   "package left\n\nimport (\n\t\"testing\"\n\n\t_ \"m/server\"\n)\n\nfunc TestLeft(t *testing.T) { t.Error(\"was not left out\") }\n",
		"without/no_tests.go": "package without\n",
	} {
		path := filepath.Join(module, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goCache(t)
	t.Chdir(module)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir()) // where there is no XDG_CACHE_HOME

	var out strings.Builder
	c := cli{Name: "a test's", Without: []string{"m/server"}, Args: []string{"-count=1", "./..."}}
	err := c.run(t.Context(), &out)
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 1 {
		t.Errorf("it ends with %v", err)
	}
	for _, want := range []string{
		"4 packages with tests", "ok    m/good", "some context", "--- FAIL: TestBad/part", "is wrong", "FAIL  m/bad",
		"panic: it died", "goroutine ", "undefined: missing", "[build failed]", "3 of 4 packages failed", "      m/left\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
	for _, not := range []string{"quiet", "was not left out", "no test files"} {
		if strings.Contains(out.String(), not) {
			t.Errorf("%q is in:\n%s", not, &out)
		}
	}
	if known := readTimes("a test's"); known.Total != 0 {
		t.Errorf("the times of a failed run were kept: %+v", known)
	}
	out.Reset()
	c.Args = []string{"-count=1", "./good"}
	if err := c.run(t.Context(), &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	if known := readTimes("a test's"); len(known.Packages) != 1 {
		t.Errorf("the times kept are %+v", known)
	}
}

// goCache leaves the go command its own cache, whose folder is one of those set anew.
func goCache(t *testing.T) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(out)))
}
