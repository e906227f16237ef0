package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
)

// TestMain makes the test binary be the wrapper, which go test runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asWrapper {
		os.Exit(wrap(os.Args[2:], os.Stdout))
	}
	os.Exit(m.Run())
}

// module writes the files of a module and makes its folder the working one.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	files["go.mod"] = "module m\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(folder, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	t.Chdir(folder)
	return folder
}

// busy is a test program whose child takes processor time, and whose last line has no end.
const busy = `package busy

import ("fmt"; "os"; "os/exec"; "syscall"; "testing")

func TestMain(m *testing.M) {
	if os.Getenv("AS_CHILD") == "" { os.Exit(m.Run()) }
	for used := (syscall.Rusage{}); used.Utime.Nano()+used.Stime.Nano() < 1e9; { _ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) }
}

func TestBusy(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "AS_CHILD=1")
	if err := child.Run(); err != nil { t.Fatal(err) }
	fmt.Print("no newline ")
}
`

// shot is a test program that ends by a signal.
const shot = "package shot\n\nimport (\n\t\"syscall\"\n\t\"testing\"\n)\n\nfunc TestShot(*testing.T) { _ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL); select {} }\n"

// tellsCosts compares the last lines of a run: the dearest package is the one whose child
// was busy.
func tellsCosts(t *testing.T, out string, packages int) {
	t.Helper()
	for _, want := range []string{
		`(?m)^ +[1-9]\d* s of CPU, +\d+ s: m/busy$(?s:.*)s: m/good$`,
		fmt.Sprintf(`(?m)^ +\d+ s of CPU in all: [1-9]\d* s by the tests of %d packages, \d+ s by brokers that they share, \d+ s to compile and link$`, packages),
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

// A test program gets the signals that its wrapper gets, and ends with it.
func TestWrapperPassesSignals(t *testing.T) {
	for name, sent := range map[string]syscall.Signal{"told": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		if sent == syscall.SIGKILL && runtime.GOOS != "linux" {
			continue // only Linux ends a child with its parent
		}
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir()) // a wrapper that is killed leaves its folder
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			command := exec.CommandContext(ctx, os.Args[0], asWrapper, "/bin/sh", "-c", "echo $$; exec sleep 60")
			stdout, err := command.StdoutPipe()
			must.OK(t, err)
			must.OK(t, command.Start())
			var line [32]byte
			n, _ := stdout.Read(line[:])
			pid, err := strconv.Atoi(strings.TrimSpace(string(line[:n])))
			must.OK(t, err)
			must.OK(t, command.Process.Signal(sent))
			if command.Wait() == nil || ctx.Err() != nil {
				t.Error("the wrapper has not ended by the signal")
			}
			for ctx.Err() == nil && syscall.Kill(pid, 0) == nil && !zombie(pid) {
				time.Sleep(5 * time.Millisecond)
			}
			if ctx.Err() != nil {
				t.Error("the test program runs on")
			}
		})
	}
}

// zombie reports whether a process has ended that its new parent has not asked.
func zombie(pid int) bool {
	stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return strings.Contains(string(stat), ") Z ")
}
