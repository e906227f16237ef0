package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestMutationsFitTheCode makes every mutation in a copy of the files it touches, so
// that a change of the code that a mutation no longer fits is noticed at once.
func TestMutationsFitTheCode(t *testing.T) {
	for _, m := range mutations {
		dir := t.TempDir()
		for _, e := range m.edits {
			content, err := os.ReadFile(filepath.Join("..", "..", e.file))
			if err != nil {
				t.Fatal(err)
			}
			target := filepath.Join(dir, e.file)
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(target, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.apply(dir); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}
