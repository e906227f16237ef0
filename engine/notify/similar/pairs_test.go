package similar

import (
	"os"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
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

func pairs(t testing.TB, name string) (all []pairing) {
	t.Helper()
	file, err := os.ReadFile("testdata/" + name)
	must.OK(t, err)
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
	all := pairs(t, "pairs.tsv")
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

// TestUnseenPairs measures what the word lists were not made from: of the repeats in
// unseen.tsv, the share that is found (recall), and of the pairs that are found, the
// share that are repeats (precision). What is promised is the precision: of repeats in
// quite other words most are not found.
//
// Promise(notify-worker/duplicates)
func TestUnseenPairs(t *testing.T) {
	var repeats, found, wrong int
	for _, p := range pairs(t, "unseen.tsv") {
		_, near := p.a.Near(p.b)
		near = near || p.a.Same(p.b)
		switch {
		case p.repeats && near:
			found++
		case near:
			wrong++
		}
		if p.repeats {
			repeats++
		}
		if near != p.repeats {
			t.Logf("line %d: %s", p.line, p.texts)
		}
	}
	recall, precision := float64(found)/float64(repeats), float64(found)/float64(found+wrong)
	t.Logf("recall %.3f (%d of %d), precision %.3f (%d wrong)", recall, found, repeats, precision, wrong)
	if repeats < 200 || recall < 0.29 || precision < 0.99 {
		t.Errorf("recall %.3f, expected 0.29; precision %.3f, expected 0.99", recall, precision)
	}
}
