// Package crashtest kills a test's process while it writes a file.
package crashtest

import (
	"bufio"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"
)

// variable holds the path of the file in the environment of the process to be killed.
const variable = "KEYFOLD_CRASH_TEST"

// Child does the writing where this process is the one that [Kill] started: it calls
// write with the path of the file and ends the process. Elsewhere it does nothing.
func Child(write func(path string) error) {
	if path := os.Getenv(variable); path != "" {
		fmt.Fprintln(os.Stderr, write(path))
		os.Exit(1)
	}
}

// Kill starts this test's program as the process that writes the file, and kills it a
// little after its first line. Each line is a key and the version that is written of
// it. The newest versions are noted in acknowledged.
func Kill[K comparable, V cmp.Ordered](t testing.TB, path string, acknowledged map[K]V) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^$")
	child.Env = append(os.Environ(), variable+"="+path)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var kill *time.Timer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var key K
		var version V
		if _, err := fmt.Sscan(lines.Text(), &key, &version); err != nil {
			continue // the line the kill cut off
		}
		acknowledged[key] = max(version, acknowledged[key])
		if kill == nil {
			delay := time.Duration(rand.Int64N(int64(150 * time.Millisecond)))
			kill = time.AfterFunc(delay, func() { _ = child.Process.Kill() })
			defer kill.Stop()
		}
	}
	if err := child.Wait(); err == nil || child.ProcessState.ExitCode() >= 0 {
		t.Fatalf("the child ended by itself: %v", err)
	}
}
