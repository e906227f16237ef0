package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// account returns the command before programs that end by themselves, and before those that
// serve. They refuse to run as root, who runs them as the user postgres, which the package makes;
// dir becomes that user's. What serves has the signal at its parent's death set anew: a change of
// the user ends it. What ends by itself has none: the parent is a thread, which may end first.
func account(dir string) (passing, serving []string, err error) {
	if os.Geteuid() != 0 {
		return nil, nil, os.MkdirAll(dir, 0o700)
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return nil, nil, fmt.Errorf("PostgreSQL does not run as root, and setpriv is not installed: apt-get install util-linux: %w", err)
	}
	owner, err := user.Lookup("postgres")
	if err != nil {
		return nil, nil, fmt.Errorf("PostgreSQL does not run as root, and its user is missing: apt-get install postgresql: %w", err)
	}
	if err := give(dir, owner); err != nil {
		return nil, nil, err
	}
	passing = []string{setpriv, "--reuid=" + owner.Uid, "--regid=" + owner.Gid, "--clear-groups"}
	return passing, append(slices.Clone(passing), "--pdeathsig=KILL"), nil
}

// give makes dir the owner's and lets the owner pass the temporary folders above it.
func give(dir string, owner *user.User) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	uid, _ := strconv.Atoi(owner.Uid) // numbers on every Unix
	gid, _ := strconv.Atoi(owner.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		return err
	}
	top := filepath.Clean(os.TempDir())
	for above := filepath.Dir(dir); strings.HasPrefix(above, top+"/"); above = filepath.Dir(above) {
		if err := os.Chmod(above, 0o711); err != nil {
			return err
		}
	}
	return nil
}
