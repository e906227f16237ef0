package sqltest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// installation is where the server's programs are.
type installation struct {
	server, prepare string
}

// errMissing says the cure: a test without its server fails, since a skipped
// one proves nothing.
var errMissing = errors.New("MariaDB is not installed: `make test` installs it, " +
	"or: apt-get install --no-install-recommends mariadb-server")

// folders are looked through where PATH has no system folders, as for users
// other than root on Debian.
var folders = []string{"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin", "/opt/homebrew/bin"}

func locate() (installation, error) {
	server, prepare := find("mariadbd"), find("mariadb-install-db")
	if server == "" || prepare == "" {
		return installation{}, errMissing
	}
	return installation{server: server, prepare: prepare}, nil
}

// find returns the path of a program, or "".
func find(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, folder := range folders {
		path := filepath.Join(folder, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}
