package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// patterns are the files of the source tree that an archive has beside the programs.
// The licence is in it as soon as there is one.
var patterns = []string{
	"*.md", "LICENSE*",
	"docs/*.md", "docs/decisions/*.md", "docs/extend/*.md", "docs/howto/*.md", "docs/images/*", "docs/reference/*.md", "docs/examples/*", "docs/examples/*/*", "docs/examples/*/*/*",
	"deploy/*.service", "deploy/*.timer", "deploy/*.yml", "deploy/*.json", "deploy/kubernetes/*.yaml", "deploy/kubernetes/*/*.yaml",
}

// pages returns these files, without tests.
func (c *cli) pages() (pages []file, err error) {
	for _, pattern := range patterns {
		paths, err := filepath.Glob(filepath.Join(c.Root, pattern))
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			info, err := os.Stat(p)
			if err != nil {
				return nil, err
			}
			if info.IsDir() || strings.HasSuffix(p, "_test.go") {
				continue
			}
			page, err := c.page(p, info.Mode())
			if err != nil {
				return nil, err
			}
			pages = append(pages, page)
		}
	}
	return pages, nil
}

// page reads a file of the source tree. Its mode says only whether it is executable:
// the rest depends on the umask of the checkout.
func (c *cli) page(p string, mode os.FileMode) (file, error) {
	content, err := os.ReadFile(p)
	if err != nil {
		return file{}, err
	}
	name, err := filepath.Rel(c.Root, p)
	page := file{name: filepath.ToSlash(name), mode: 0o644, content: content}
	if mode&0o100 != 0 {
		page.mode = 0o755
	}
	return page, err
}

// epoch is the time of every file in an archive: a real one would change its bytes.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// archive returns a .tar.gz of files in one folder, sorted by name, of user and
// group 0.
func archive(folder string, files []file) ([]byte, error) {
	var b bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	written := tar.NewWriter(compressed)
	sorted := slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
	for _, f := range sorted {
		header := &tar.Header{
			Name: path.Join(folder, f.name), Mode: f.mode, Size: int64(len(f.content)), ModTime: epoch,
			Typeflag: tar.TypeReg, Format: tar.FormatUSTAR,
		}
		if err := written.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := written.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(written.Close(), compressed.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
