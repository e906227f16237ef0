package main

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// A test program's temporary files are in a folder of its own, in TMPDIR or else where the
// machine has room for them, and gone with it, also what it leaves when it is killed.
func TestTemporaryFilesEndWithTheProgram(t *testing.T) {
	system := cmp.Or(memory(), "/tmp") // os.TempDir's without TMPDIR
	for set, under := range map[string]string{"": system, t.TempDir(): ""} {
		t.Setenv("TMPDIR", set)
		var out bytes.Buffer
		if code := wrap([]string{"/bin/sh", "-c", `echo "$TMPDIR"; echo left >"$TMPDIR/file"; kill -9 $$`}, &out); code == 0 {
			t.Error("a program that was killed has passed")
		}
		folder, _, _ := strings.Cut(out.String(), "\n")
		if want := cmp.Or(under, set); !strings.HasPrefix(folder, want+"/k") {
			t.Errorf("its temporary folder was %q, want one in %s", folder, want)
		}
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", folder, err)
		}
	}
}
