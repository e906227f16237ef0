package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// asWrapper makes this program run a test program, as go test -exec asks for.
const asWrapper = "--run-test-program"

// cpuLine begins the line that the wrapper prints after a test program's output.
const cpuLine = "progress: seconds of processor time: "

// wrapperFlag has go test run each test program by this one.
func wrapperFlag() (string, error) {
	path, err := os.Executable()
	return fmt.Sprintf("-exec='%s' %s", path, asWrapper), err
}

// wrap runs a test program to its end, and prints the processor time that it and its
// children have taken: a server that a test starts counts once it is waited for. Its
// temporary files are in a folder of their own. wrap returns the exit code.
func wrap(program []string, out io.Writer) int {
	command := exec.Command(program[0], program[1:]...) //nolint:gosec // go test names it
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, out, os.Stderr
	folder, err := os.MkdirTemp(temporary(), "k")
	if err == nil {
		err = os.Chmod(folder, 0o711) //nolint:gosec // PostgreSQL's own user passes it
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder) // what a program that is killed leaves there, too
	command.Env = append(os.Environ(), "TMPDIR="+folder)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	if err := start(command); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		for s := range signals {
			_ = command.Process.Signal(s) // it may have ended
		}
	}()
	err = command.Wait()
	fmt.Fprintf(out, "%s%.2f\n", cpuLine, cpuOf(command.ProcessState).Seconds())
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && !failed.Exited() {
		fmt.Fprintln(os.Stderr, failed) // the signal, which go test would name
	}
	if err != nil {
		return max(1, command.ProcessState.ExitCode())
	}
	return 0
}

// temporary is where the temporary files of a run are; "" is the system's folder.
func temporary() string { return cmp.Or(os.Getenv("TMPDIR"), memory()) }

// cpuOf is the processor time of a process that has ended, with that of its children.
func cpuOf(p *os.ProcessState) time.Duration { return p.UserTime() + p.SystemTime() }

// cpuOfChildren is the processor time of this process's children that have ended.
func cpuOfChildren() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		return 0 // it only fails for a wrong argument
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// cpuIn returns the seconds in a line of the wrapper, and what of the test program's last
// line stands before them.
func cpuIn(line string) (seconds float64, before string, ok bool) {
	before, text, ok := strings.Cut(line, cpuLine)
	if !ok {
		return 0, "", false
	}
	seconds, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return seconds, before, err == nil
}
