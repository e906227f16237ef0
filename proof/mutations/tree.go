package main

import (
	"io/fs"
	"os"
	"strings"
)

// copyTree copies a checkout, without what is hidden in it, to a directory of its
// own.
func copyTree(from string) (string, error) {
	to, err := os.MkdirTemp("", "keyfold-mutation-")
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(to, visible{os.DirFS(from)}); err != nil {
		_ = os.RemoveAll(to)
		return "", err
	}
	return to, nil
}

// visible leaves out of a file system what is hidden, and what is no regular file.
type visible struct{ fs.FS }

// ReadDir implements [fs.ReadDirFS].
func (v visible) ReadDir(name string) (shown []fs.DirEntry, err error) {
	all, err := fs.ReadDir(v.FS, name)
	for _, entry := range all {
		if !strings.HasPrefix(entry.Name(), ".") && (entry.IsDir() || entry.Type().IsRegular()) {
			shown = append(shown, entry)
		}
	}
	return shown, err
}
