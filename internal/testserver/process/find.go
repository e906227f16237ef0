package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Find returns the path of a program of a Debian package: in one of folders, or,
// where none is given, in PATH or a folder that PATH of some users lacks. A test
// without its server fails, since a skipped one proves nothing: the error says how
// to install it.
func Find(pkg, program string, folders ...string) (string, error) {
	if folders == nil {
		folders = append(filepath.SplitList(os.Getenv("PATH")),
			"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin")
	}
	for _, folder := range folders {
		if path, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: `make test` installs it, or: apt-get install --no-install-recommends %s", program, pkg)
}

// Build builds one of the module's programs into dir and returns its path. The
// working directory must be inside the module.
func Build(ctx context.Context, dir, pkg string, flags ...string) (string, error) {
	path := filepath.Join(dir, filepath.Base(pkg))
	args := append(append([]string{"build", "-o", path}, flags...), pkg)
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}
