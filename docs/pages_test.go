package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every link from one page to another leads to a file.
func TestLinksBetweenPages(t *testing.T) {
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	for _, page := range append(pages, "../README.md", "../CHANGELOG.md", "../CONTRIBUTING.md", "../SECURITY.md", "examples/README.md", "examples/notify/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), found[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// ARCHITECTURE.md names files that exist: with their folder, or, after such a file,
// by their names alone.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile("`([a-z_/0-9-]+\\.go)`").FindAllStringSubmatch(string(text), -1)
	if len(files) < 20 {
		t.Fatalf("only %d files are named: the page was not read as it was meant", len(files))
	}
	for _, found := range files {
		folders := []string{".."}
		if !strings.Contains(found[1], "/") {
			folders = []string{"../*", "../*/*"}
		}
		there := 0
		for _, folder := range folders {
			matches, _ := filepath.Glob(filepath.Join(folder, found[1])) // the patterns are well-formed
			there += len(matches)
		}
		if there == 0 {
			t.Errorf("%s is named and not there", found[1])
		}
	}
}
