package similar

import (
	"os"
	"strings"
	"testing"
)

// pairing is a line of testdata/pairs.tsv.
type pairing struct {
	line    int
	repeats bool
	a, b    Print
	texts   string
}

func printOf(notification string) Print {
	texts, id, _ := strings.Cut(notification, " @ ")
	title, message, _ := strings.Cut(texts, " | ")
	return Of("PROMO", title, message, []string{id}, "")
}

func pairs(t testing.TB) (all []pairing) {
	t.Helper()
	file, err := os.ReadFile("testdata/pairs.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(file), "\n") {
		columns := strings.Split(strings.ReplaceAll(line, `\u0301`, "\u0301"), "\t")
		if line == "" || line[0] == '#' {
			continue
		}
		if len(columns) != 3 || columns[0] != "=" && columns[0] != "!" {
			t.Fatalf("line %d has %d columns", i+1, len(columns))
		}
		all = append(all, pairing{i + 1, columns[0] == "=", printOf(columns[1]), printOf(columns[2]), line})
	}
	return all
}

// Each pair is right: a repeat has the same content or is near, anything else is
// neither.
func TestPairs(t *testing.T) {
	all := pairs(t)
	for _, p := range all {
		measure, near := p.a.Near(p.b)
		same := p.a.Same(p.b)
		if (near || same) != p.repeats {
			t.Errorf("line %d: same %v, near %v %s: %s", p.line, same, near, measure, p.texts)
		}
		if _, back := p.b.Near(p.a); back != near {
			t.Errorf("line %d: near in one direction", p.line)
		}
	}
	if len(all) < 200 {
		t.Errorf("%d pairs", len(all))
	}
}
