package main

import (
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
