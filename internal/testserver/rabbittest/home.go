package rabbittest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// wanted are the applications that a node starts beside its plugins; [slimHome] adds those they need.
var wanted = []string{"rabbit", "rabbitmq_prelaunch"}

// scriptsIn is the folder of scripts in the one that slimHome makes.
func scriptsIn(dir string) string { return filepath.Join(dir, "home", "sbin") }

// slimHome makes a folder of links to those parts of RabbitMQ's installation that a node
// needs. A node looks for each of some hundred modules in the folders of all plugins, one
// after the other: without the plugins that are not used it boots in two thirds of the
// processor time.
func slimHome(installed, dir string, started []string) error {
	home := filepath.Join(dir, "home")
	plugins := filepath.Join(home, "plugins")
	if err := os.MkdirAll(plugins, 0o700); err != nil {
		return err
	}
	for _, part := range []string{"sbin", "escript"} {
		if err := os.Symlink(filepath.Join(installed, part), filepath.Join(home, part)); err != nil {
			return err
		}
	}
	linked := map[string]bool{}
	for queue := slices.Concat(wanted, started); len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		folders, err := filepath.Glob(filepath.Join(installed, "plugins", name+"-[0-9]*"))
		if err != nil {
			return err
		}
		if linked[name] || len(folders) == 0 { // or it is Erlang's own
			continue
		}
		linked[name] = true
		if err := os.Symlink(folders[0], filepath.Join(plugins, filepath.Base(folders[0]))); err != nil {
			return err
		}
		needs, err := applications(filepath.Join(folders[0], "ebin", name+".app"))
		if err != nil {
			return err
		}
		queue = append(queue, needs...)
	}
	return nil
}

var needed = regexp.MustCompile(`\{(?:included_)?applications,\s*\[([^\]]*)\]`)

// applications reads which applications one needs.
func applications(app string) (names []string, err error) {
	text, err := os.ReadFile(app)
	if err != nil {
		return nil, err
	}
	for _, list := range needed.FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(list[1], ",") {
			names = append(names, strings.Trim(name, " \t\n'"))
		}
	}
	return names, nil
}
