package rabbittest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// installation is where the broker's scripts are.
type installation struct {
	server, control, epmd string
}

// errMissing says the cure: a test without its broker fails, since a skipped
// one proves nothing.
var errMissing = errors.New("rabbitmq-server is not installed: `make test` installs it, " +
	"or: apt-get install --no-install-recommends rabbitmq-server")

// scripts are looked for where packages put the ones that run as the calling
// user. Those in /usr/sbin on Debian switch to the user rabbitmq, whose folders
// are the system broker's.
var scripts = []string{"/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin", "/usr/local/opt/rabbitmq/sbin"}

func locate() (installation, error) {
	epmd, err := exec.LookPath("epmd")
	if err != nil {
		return installation{}, errMissing
	}
	for _, dir := range scripts {
		server := filepath.Join(dir, "rabbitmq-server")
		if _, err := os.Stat(server); err == nil {
			return installation{server: server, control: filepath.Join(dir, "rabbitmqctl"), epmd: epmd}, nil
		}
	}
	return installation{}, errMissing
}
