package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

type retiredWord struct {
	pattern *regexp.Regexp
	instead string
}

func retiredWords(t *testing.T) (words []retiredWord) {
	text, err := os.ReadFile("words.txt")
	must.OK(t, err)
	for line := range strings.Lines(string(text)) {
		pattern, instead, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if found {
			words = append(words, retiredWord{regexp.MustCompile(pattern), instead})
		}
	}
	return words
}

// Product code and pages use no word that docs/words.txt retired. Tests may: they quote.
func TestRetiredWordsStayAway(t *testing.T) {
	words := retiredWords(t)
	if len(words) == 0 {
		t.Fatal("words.txt retires no word")
	}
	var all []string
	for _, w := range words {
		all = append(all, w.pattern.String())
	}
	any, read := regexp.MustCompile(strings.Join(all, "|")), 0
	for _, folder := range []string{"engine", "shard", "source", "sink", "internal", "service", "cmd", "proof", "bench", "docs"} {
		err := filepath.WalkDir(filepath.Join("..", folder), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !isProse(path) {
				return err
			}
			read++
			text, err := os.ReadFile(path)
			if any.Match(text) {
				checkWords(t, path, string(text), words)
			}
			return err
		})
		must.OK(t, err)
	}
	if read < 500 {
		t.Errorf("only %d files were read", read)
	}
}

// isProse reports whether a file is product code or a page.
func isProse(path string) bool {
	switch filepath.Ext(path) {
	case ".go":
		return !strings.HasSuffix(path, "_test.go")
	case ".md":
		return true
	}
	return false
}

func checkWords(t *testing.T, path, text string, words []retiredWord) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		for _, w := range words {
			if found := w.pattern.FindString(line); found != "" {
				t.Errorf("%s:%d: %q is retired; write: %s", strings.TrimPrefix(path, "../"), number, found, w.instead)
			}
		}
	}
}
