package rabbittest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"keyfold/internal/testserver/process"
)

// folderVariable names a folder with an unpacked RabbitMQ and its Erlang, as
// .ci/rabbitmq4 makes one: brokers run from there and not from the machine's packages.
const folderVariable = "KEYFOLD_TEST_RABBITMQ"

// strictVariable makes RabbitMQ 4 as later versions are: Khepri in the place of Mnesia,
// which RabbitMQ 4.3 has dropped, and no deprecated feature.
const strictVariable = "KEYFOLD_TEST_RABBITMQ_STRICT"

// An installation is what a broker is run from.
type installation struct {
	server, control string // RabbitMQ's scripts
	epmd, call      string // Erlang's port mapper and erl_call
	home            string // the folder of RabbitMQ's plugins, scripts and escripts
	path            string // PATH, with the folder of Erlang's programs
	major           int    // RabbitMQ's version
}

// scripts is where packages put the scripts that run as the calling user. Those
// in /usr/sbin on Debian switch to the user rabbitmq, whose folders are the system
// broker's.
var scripts = []string{"/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin", "/usr/local/opt/rabbitmq/sbin"}

// ofMachine finds the machine's RabbitMQ.
func ofMachine() (installation, error) { return find(os.Getenv("PATH"), scripts, nil) }

// ofFolder finds RabbitMQ and Erlang in a folder that Debian's packages are unpacked in.
func ofFolder(folder string) (installation, error) {
	erlang := filepath.Join(folder, "usr/lib/erlang/bin")
	in, err := find(erlang+string(filepath.ListSeparator)+os.Getenv("PATH"),
		[]string{filepath.Join(folder, "usr/lib/rabbitmq/bin")}, []string{erlang})
	if err != nil {
		err = fmt.Errorf("%s has no RabbitMQ: `.ci/rabbitmq4 %s` puts RabbitMQ 4 there: %w", folder, folder, err)
	}
	return in, err
}

// find looks for the programs. Without folders for Erlang's, it takes those of PATH.
func find(path string, scripts, erlang []string) (in installation, err error) {
	const installed = "rabbitmq-server"
	in.path = path
	var failed [4]error
	in.server, failed[0] = process.Find(installed, "rabbitmq-server", scripts...)
	in.control, failed[1] = process.Find(installed, "rabbitmqctl", scripts...)
	in.epmd, failed[2] = process.Find(installed, "epmd", erlang...)
	in.call, failed[3] = process.Find(installed, "erl_call", erlang...)
	if err := errors.Join(failed[:]...); err != nil {
		return in, err
	}
	script, err := filepath.EvalSymlinks(in.server)
	if err != nil {
		return in, err
	}
	in.home = filepath.Dir(filepath.Dir(script))
	in.major, err = majorOf(in.home)
	return in, err
}

// majorOf reads the version from the name of a plugin's folder, as in rabbit-3.10.8.
func majorOf(home string) (int, error) {
	folders, err := filepath.Glob(filepath.Join(home, "plugins", "rabbit-[0-9]*"))
	if err != nil {
		return 0, err
	}
	if len(folders) != 1 {
		return 0, fmt.Errorf("%s/plugins: %d folders rabbit-VERSION, want 1", home, len(folders))
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folders[0]), "rabbit-"), ".")
	return strconv.Atoi(major)
}

// chosen is the installation for tests that run on every version.
func chosen() (installation, error) {
	if folder := os.Getenv(folderVariable); folder != "" {
		return ofFolder(folder)
	}
	return ofMachine()
}

// version returns a look for a major version.
func version(major int) func() (installation, error) {
	return func() (installation, error) { return ofVersion(major) }
}

// ofVersion finds an installation of a major version: the chosen one, the machine's, or
// that in the folder that .ci/rabbitmq4 makes.
func ofVersion(major int) (installation, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return installation{}, err
	}
	for _, look := range []func() (installation, error){chosen, ofMachine, func() (installation, error) {
		return ofFolder(filepath.Join(cache, "keyfold", "rabbitmq-4"))
	}} {
		if in, err := look(); err == nil && in.major == major {
			return in, nil
		}
	}
	return installation{}, fmt.Errorf("RabbitMQ %d is not installed: `make test` installs both 3 and 4, or name a folder that has it in %s", major, folderVariable)
}
