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
const linkerFlags = "-s -w -X keyfold/cmd/version.Version="

// build builds the programs for a target: static, without the builder's paths. The
// version alone names the commit (-buildvcs=false), so that a checkout and an unpacked
// archive of the source give the same bytes.
func (c *cli) build(ctx context.Context, system, processor string) (programs []file, err error) {
	dir, err := os.MkdirTemp("", "keyfold-release-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, pkg := range c.Programs {
		name := path.Base(pkg)
		output := filepath.Join(dir, name)
		command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+linkerFlags+c.Version, "-o", output, pkg)
		command.Dir = c.Root
		command.Env = append(command.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+processor)
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
