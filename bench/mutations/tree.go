package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// copyTree copies a checkout, without what is hidden in it, to a directory of its
// own.
func copyTree(from string) (string, error) {
	to, err := os.MkdirTemp("", "keyfold-mutation-")
	if err != nil {
		return "", err
	}
	err = filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != "." && strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		target := filepath.Join(to, path)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
	if err != nil {
		_ = os.RemoveAll(to)
		return "", err
	}
	return to, nil
}

// apply makes the mutation in a tree.
func (m *mutation) apply(dir string) error {
	for _, e := range m.edits {
		path := filepath.Join(dir, e.file)
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := strings.Count(string(content), e.old); n != 1 {
			return fmt.Errorf("%s: the piece to replace stands there %d times, not once: adapt bench/mutations to the code:\n%s",
				e.file, n, e.old)
		}
		changed := strings.Replace(string(content), e.old, e.new, 1)
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			return err
		}
	}
	return nil
}
