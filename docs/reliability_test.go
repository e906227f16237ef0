package docs_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every test that RELIABILITY.md names is in the tree: what is renamed or
// removed takes its promise along.
func TestReliabilityNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("RELIABILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`).FindAllString(string(page), -1)
	if len(named) < 100 {
		t.Fatalf("only %d tests are named: the page was not read as it was meant", len(named))
	}
	there := map[string]bool{}
	definition := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(\w+ \*testing\.[TF]\)`)
	root := os.DirFS("..")
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := fs.ReadFile(root, path)
		for _, found := range definition.FindAllSubmatch(text, -1) {
			there[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range named {
		if !there[name] {
			t.Errorf("%s is named and not there", name)
		}
	}
}
