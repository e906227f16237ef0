package users

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
)

var quiet = cli.Streams{Stdout: io.Discard, Stderr: io.Discard}

// How many profiles were written is said where it does not mix with them.
func TestExportSaysHowMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profiles")
	for to, want := range map[string]string{path: "1 profile written to " + path + "\n", "-": "1 profile written to standard output\n"} {
		var out, errs bytes.Buffer
		if err := Export(to, cli.Streams{Stdout: &out, Stderr: &errs}, one(nil)); err != nil || errs.String() != want {
			t.Errorf("%q, %v, want %q", &errs, err, want)
		}
		if lines := bytes.Count(out.Bytes(), []byte("\n")); (to == "-") != (lines == 1) {
			t.Errorf("%d lines to standard output:\n%s", lines, &out)
		}
	}
	var errs bytes.Buffer
	two := func(yield func(*profile.Profile, error) bool) {
		_ = yield(&profile.Profile{UserID: 7, Version: 1}, nil) && yield(&profile.Profile{UserID: 8, Version: 2, ErasedAt: 1}, nil)
	}
	if err := Export("-", cli.Streams{Stdout: io.Discard, Stderr: &errs}, two); err != nil || errs.String() != "1 profile and 1 tombstone written to standard output\n" {
		t.Errorf("with an erased user: %q, %v", &errs, err)
	}
	errs.Reset()
	if err := Export("-", cli.Streams{Stdout: io.Discard, Stderr: &errs}, one(errors.New("cut off"))); err == nil || errs.Len() > 0 {
		t.Errorf("a failed export: %v, %q", err, &errs)
	}
}

func one(err error) iter.Seq2[*profile.Profile, error] {
	return func(yield func(*profile.Profile, error) bool) {
		if yield(&profile.Profile{UserID: 7, Version: 1}, nil) && err != nil {
			yield(nil, err)
		}
	}
}

func TestExportReplacesALinksTarget(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	must.OK(t, errors.Join(os.WriteFile(target, []byte("old"), 0o644), os.Symlink(target, link)))
	must.OK(t, Export(link, quiet, one(nil)))
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v (%v)", info.Mode(), err)
	}
	if text, _ := os.ReadFile(target); len(text) < 10 {
		t.Errorf("the target holds %q", text)
	}
	if info, _ := os.Stat(target); info.Mode().Perm() != 0o600 {
		t.Errorf("profiles are readable by others: %v", info.Mode())
	}
}

func TestExportIntoAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.OK(t, syscall.Mkfifo(pipe, 0o600))
	line := make(chan string, 1)
	go func() {
		f, err := os.Open(pipe)
		if err != nil {
			line <- err.Error()
			return
		}
		defer f.Close()
		text, _ := bufio.NewReader(f).ReadString('\n')
		line <- text
	}()
	must.OK(t, Export(pipe, quiet, one(nil)))
	if got := <-line; len(got) < 10 || got[0] != '{' {
		t.Errorf("the reader got %q", got)
	}
	if info, err := os.Stat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe became %v (%v)", info.Mode(), err)
	}
}

func TestFailedExportLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profiles")
	must.OK(t, os.WriteFile(path, []byte("old"), 0o600))
	if err := Export(path, quiet, one(errors.New("cut off"))); err == nil {
		t.Error("a failed read was exported")
	}
	if text, _ := os.ReadFile(path); string(text) != "old" {
		t.Errorf("it holds %q", text)
	}
	if rest, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".export-*")); len(rest) != 0 {
		t.Errorf("left behind: %v", rest)
	}
}
