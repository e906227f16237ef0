package main

import (
	"bytes"
	"embed"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// mutation takes one rule out of the code.
type mutation struct {
	name  string
	rule  string
	by    string // what has to notice: "sim", "notify", "soak" or "tests"
	tests string // by tests: what `go test` gets to notice it with
	patch []byte // nil: the tree as it is
}

// rules are the rules that hold "nothing lost, nothing twice" together: a patch for
// each, below lines that name its fields.
//
//go:embed rules/*.patch
var rules embed.FS

// load reads the rules in the order of their names.
func load() (all []mutation, err error) {
	files, err := rules.ReadDir("rules")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		m := mutation{name: strings.TrimSuffix(file.Name(), ".patch")}
		if m.patch, err = rules.ReadFile(path.Join("rules", file.Name())); err != nil {
			return nil, err
		}
		head, _, _ := bytes.Cut(m.patch, []byte("\n\n"))
		for line := range strings.SplitSeq(string(head), "\n") {
			field, text, _ := strings.Cut(line, ": ")
			switch field {
			case "rule":
				m.rule = text
			case "by":
				m.by = text
			case "tests":
				m.tests = text
			default:
				return nil, fmt.Errorf("%s: unknown field %q", file.Name(), field)
			}
		}
		if m.rule == "" || m.by == "" || (m.by == "tests") != (m.tests != "") {
			return nil, fmt.Errorf("%s: it needs a rule, by, and tests where it is by tests", file.Name())
		}
		all = append(all, m)
	}
	return all, nil
}

// apply makes the mutation in a tree.
func (m *mutation) apply(dir string, options ...string) error {
	if m.patch == nil {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	git := exec.Command("git", append([]string{"apply", "-C1"}, options...)...)
	git.Dir, git.Stdin = dir, bytes.NewReader(m.patch)
	// A tree inside of another checkout would be taken for a part of that.
	git.Env = append(git.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := git.CombinedOutput(); err != nil {
		return fmt.Errorf("the patch does not apply: adapt proof/mutations/rules/%s.patch to the code: %w\n%s", m.name, err, out)
	}
	return nil
}
