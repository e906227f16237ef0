package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// The Makefile leaves tests out of one step since another one runs them, which goes by the
// test's name and its package.
func TestEveryTestRunsInOneStep(t *testing.T) {
	text, err := os.ReadFile("../Makefile")
	must.OK(t, err)
	variable := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + ` [:?]= ((?:.*\\\n)*.*)`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		return strings.NewReplacer("\\\n", " ", "$$", "$").Replace(string(found[1]))
	}
	tests := testsByPackage(t)
	for _, step := range []struct {
		names, packages string
		others          []string // whose tests all run in a step
	}{
		{"COMPUTING", "COMPUTING_PACKAGES", append(strings.Fields(variable("PROGRAMS")), "./proof/sim", "./proof/notifysim", "./proof/streamsim")},
		{"ONLY_RACE", "PROGRAMS", nil},
		{"ONLY_LONG", "LONG_PACKAGES", []string{"./bench", "./proof/soak"}},
		{"LONG", "LONG_PACKAGES", nil},
	} {
		packages := append(strings.Fields(variable(step.packages)), step.others...)
		for one := range strings.SplitSeq(strings.ReplaceAll(variable(step.names), " ", ""), "|") {
			pattern, inside := regexp.MustCompile(one), 0
			for dir, names := range tests {
				for _, name := range names {
					switch {
					case !pattern.MatchString(name):
					case within("./"+dir, packages):
						inside++
					case step.names != "LONG": // those run in make test too
						t.Errorf("%s of %s is left out of make test by %s of %s, and %s lacks its package", name, dir, one, step.names, step.packages)
					}
				}
			}
			if inside == 0 {
				t.Errorf("%s of %s names no test of %s", one, step.names, step.packages)
			}
		}
	}
}

// within reports whether a package is one of these, or below one that ends with dots.
func within(dir string, packages []string) bool {
	for _, p := range packages {
		if above, tree := strings.CutSuffix(p, "/..."); dir == p || tree && (dir == above || strings.HasPrefix(dir, above+"/")) {
			return true
		}
	}
	return false
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsByPackage returns the names of all tests.
func testsByPackage(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	must.OK(t, fs.WalkDir(os.DirFS(".."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		for _, found := range testFunction.FindAllSubmatch(text, -1) {
			all[path.Dir(name)] = append(all[path.Dir(name)], string(found[1]))
		}
		return err
	}))
	return all
}
