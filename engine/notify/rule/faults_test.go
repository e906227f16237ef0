package rule

import (
	"flag"
	"os"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

var update = flag.Bool("update", false, "write testdata/faults.txt anew")

// TestEveryFaultOfASetIsNamedAtOnce holds the list of faults that one bad set has. Each
// line was checked by eye; -update writes the list anew.
func TestEveryFaultOfASetIsNamedAtOnce(t *testing.T) {
	text, err := os.ReadFile("testdata/faults.json")
	must.OK(t, err)
	d, faults := Read(text)
	if d != nil {
		t.Error("a set with faults was read")
	}
	var lines strings.Builder
	texts := map[string]bool{}
	for _, fault := range faults {
		lines.WriteString(fault.String() + "\n")
		texts[fault.Text] = true
		if !strings.HasPrefix(fault.Path, "$.") || fault.Line == 0 {
			t.Errorf("no place: %s", fault)
		}
	}
	if len(texts) < 40 {
		t.Errorf("%d different faults are named, want 40 at least", len(texts))
	}
	if *update {
		must.OK(t, os.WriteFile("testdata/faults.txt", []byte(lines.String()), 0o644))
	}
	want, err := os.ReadFile("testdata/faults.txt")
	must.OK(t, err)
	found, expected := strings.Split(lines.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(found), len(expected)) {
		var f, e string
		if i < len(found) {
			f = found[i]
		}
		if i < len(expected) {
			e = expected[i]
		}
		if f != e {
			t.Errorf("line %d:\nfound    %s\nexpected %s", i+1, f, e)
		}
	}
}
