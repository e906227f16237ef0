package docs_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

var update = flag.Bool("update", false, "write docs/reference/promises.md")

// subjects are the sections of the page of promises: the first part of a promise's id, and
// the section's title.
var subjects = [][2]string{
	{"event", "What becomes of an event"},
	{"redelivery", "Redelivery"},
	{"away", "When something is away"},
	{"outbox", "From a click to the queue"},
	{"rebuild", "Rebuilding profiles"},
	{"partitions", "Partitions"},
	{"streams", "Streams"},
	{"recommend", "Recommendations"},
	{"eval", "Evaluation"},
	{"lite", "keyfold-lite"},
	{"security", "Secrets, faults and erasure"},
	{"shutdown", "Shutdown"},
	{"bounds", "Bounds"},
	{"notify", "What becomes of a notification"},
	{"notify-worker", "The worker of notifications"},
	{"ledger", "The PostgreSQL ledger"},
	{"dispatch", "Notifications over RabbitMQ"},
	{"api", "The API of notifications"},
	{"acceptance", "Acceptance of notifications"},
	{"dashboard", "The dashboard"},
	{"monitoring", "Monitoring"},
	{"manifests", "Kubernetes and Docker Compose"},
	{"rabbitmq", "RabbitMQ and its client library"},
	{"mongodb", "MongoDB and its driver"},
	{"batching", "Batching"},
	{"json", "JSON"},
	{"proof", "The proof"},
}

type promise struct {
	text, figure string
	tests        []string
}

// The page of promises is made from the comments above tests:
//
//	// Promise(subject/name): What keyfold promises, in one sentence.
//	// Figure: what was measured, if anything was
//
// stands above one test, and Promise(subject/name) alone above each other that holds it, or
// several ids with commas between. These lines are the last of a comment. A text goes on in
// the lines behind it.
func TestPromises(t *testing.T) {
	promises := map[string]*promise{}
	root, tests := os.DirFS(".."), 0
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "docs/") {
			return err
		}
		text, err := fs.ReadFile(root, path)
		tests += collect(t, path, string(text), promises)
		return err
	})
	must.OK(t, err)
	if tests < 500 {
		t.Errorf("only %d tests hold promises: they were not read as it was meant", tests)
	}
	const page = "reference/promises.md"
	want := promisesPage(t, promises)
	if *update {
		must.OK(t, os.WriteFile(page, []byte(want), 0o644))
	}
	if is, err := os.ReadFile(page); err != nil || string(is) != want {
		t.Errorf("docs/%s is not what the tests say (%v): go test ./docs -run TestPromises -update", page, err)
	}
}

var (
	promised = regexp.MustCompile(`(?m)^// Promise\(([^)]*)\)`)
	// held is a comment whose last lines are promises, and the test below it.
	held = regexp.MustCompile(`(?m)((?:^//.*\n)*)^(func (\w+)\(|.*\n)`)
	test = regexp.MustCompile(`^(?:Test|Fuzz)[A-Z]`)
)

// collect adds the promises of a file, and returns how many of its tests have any.
func collect(t *testing.T, path, text string, promises map[string]*promise) (tests int) {
	for _, found := range held.FindAllStringSubmatch(text, -1) {
		comment, name := found[1], found[3]
		at := promised.FindStringIndex(comment)
		if at == nil {
			continue
		}
		tests++
		if !test.MatchString(name) {
			t.Errorf("%s: no test stands below %s", path, comment)
		}
		for part := range strings.SplitSeq(comment[at[0]:], "// Promise(") {
			ids, rest, _ := strings.Cut(strings.ReplaceAll(part, "\n// ", " "), ")")
			for id := range strings.SplitSeq(ids, ", ") {
				if id == "" {
					continue
				}
				p := promises[id]
				if p == nil {
					p = &promise{}
					promises[id] = p
				}
				p.tests = append(p.tests, name)
				said, isText := strings.CutPrefix(strings.TrimSpace(rest), ": ")
				if isText && p.text != "" {
					t.Errorf("%s: %s has a text above two tests", path, id)
				}
				if isText {
					p.text, p.figure, _ = strings.Cut(said, " Figure: ")
				}
			}
		}
	}
	return tests
}

func promisesPage(t *testing.T, promises map[string]*promise) string {
	var b strings.Builder
	b.WriteString("# Promises and their tests\n\n" +
		"Each promise of [RELIABILITY](../RELIABILITY.md) in detail, what was measured, and the tests that hold it.\n" +
		"`go test ./docs -run TestPromises -update` makes this page from the comments above the tests.\n")
	subject := func(id string) string { s, _, _ := strings.Cut(id, "/"); return s }
	known := map[string]bool{}
	for _, s := range subjects {
		known[s[0]] = true
		fmt.Fprintf(&b, "\n## %s\n\n", s[1])
		for _, id := range slices.Sorted(maps.Keys(promises)) {
			if subject(id) == s[0] {
				b.WriteString(promises[id].line(id))
			}
		}
	}
	for id, p := range promises {
		switch {
		case !known[subject(id)]:
			t.Errorf("%s is of no subject that docs/promises_test.go knows", id)
		case p.text == "":
			t.Errorf("%s has no text above any test", id)
		case len(p.text) > 160 || len(p.figure) > 160:
			t.Errorf("%s: text and figure have at most 160 characters: %s %s", id, p.text, p.figure)
		}
	}
	return b.String()
}

func (p *promise) line(id string) string {
	_, name, _ := strings.Cut(id, "/")
	slices.Sort(p.tests)
	figure := ""
	if p.figure != "" {
		figure = " *" + p.figure + "*"
	}
	return fmt.Sprintf("- **%s**: %s%s\n  %s\n", name, p.text, figure, strings.Join(slices.Compact(p.tests), ", "))
}
