package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// file is one file of an archive.
type file struct {
	name    string // its path in the archive
	mode    int64
	content []byte
}

// linkerFlags leave out symbols and debug information and set the version.
const linkerFlags = "-s -w -X keyfold/internal/version.Version="

// build builds the programs for a target: static, without the builder's paths, and,
// where the tree is a clone, with the commit (-buildvcs). What the builder has set
// for Go, like GOFLAGS, must not change the bytes.
func (c *cli) build(ctx context.Context, system, processor string) (programs []file, err error) {
	dir, err := os.MkdirTemp("", "keyfold-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, pkg := range c.Programs {
		name := path.Base(pkg)
		output := filepath.Join(dir, name)
		command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=auto",
			"-ldflags="+linkerFlags+c.Version, "-o", output, pkg)
		command.Dir = c.Root
		command.Env = append(command.Environ(), "GOOS="+system, "GOARCH="+processor,
			"CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOAMD64=v1", "GOARM64=v8.0")
		if text, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, text)
		}
		content, err := os.ReadFile(output)
		if err != nil {
			return nil, err
		}
		programs = append(programs, file{name: name, mode: 0o755, content: content})
	}
	return programs, nil
}
