package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

// Every link from one page to another leads to a file, and to a section that is there.
func TestLinksBetweenPages(t *testing.T) {
	pages := []string{"../README.md", "../CHANGELOG.md", "../CONTRIBUTING.md", "../SECURITY.md"}
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	must.OK(t, err)
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must.OK(t, err)
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			target := page
			if found[1] != "" {
				target = filepath.Join(filepath.Dir(page), found[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if found[2] != "" && !hasSection(t, target, found[2]) {
				t.Errorf("%s links to %s#%s, which is no section", page, found[1], found[2])
			}
		}
	}
}

var notInAnchors = regexp.MustCompile(`[^a-z0-9 _-]`)

// hasSection reports whether a page has a heading with the anchor that GitHub gives it.
func hasSection(t *testing.T, page, anchor string) bool {
	text, err := os.ReadFile(page)
	must.OK(t, err)
	for line := range strings.Lines(string(text)) {
		title, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		title = notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		if found && line[0] == '#' && strings.ReplaceAll(title, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// ARCHITECTURE.md names files that exist: with their folder, or, after such a file,
// by their names alone.
func TestArchitectureNamesFilesThatExist(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	must.OK(t, err)
	files := regexp.MustCompile("`([a-z_/0-9-]+\\.go)`").FindAllStringSubmatch(string(text), -1)
	if len(files) < 20 {
		t.Fatalf("only %d files are named: the page was not read as it was meant", len(files))
	}
	for _, found := range files {
		folders := []string{".."}
		if !strings.Contains(found[1], "/") {
			folders = []string{"../*", "../*/*", "../*/*/*"}
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

// The guides for extensions name tests that exist.
func TestGuidesNameTestsThatExist(t *testing.T) {
	var all strings.Builder
	err := filepath.WalkDir("..", func(path string, entry os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	must.OK(t, err)
	guides, err := filepath.Glob("extend/*.md")
	if err != nil || len(guides) < 4 {
		t.Fatalf("%d guides: %v", len(guides), err)
	}
	for _, guide := range guides {
		text, err := os.ReadFile(guide)
		must.OK(t, err)
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(string(text), -1) {
			if !strings.Contains(all.String(), "\nfunc "+name+"(") {
				t.Errorf("%s names %s, which is not there", guide, name)
			}
		}
	}
}
