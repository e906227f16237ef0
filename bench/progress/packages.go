package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// pkg is a package to test.
type pkg struct {
	path  string
	tests bool     // it has some
	deps  []string // import paths, those of its tests among them
}

// list asks go list for the packages that patterns name.
func list(ctx context.Context, patterns []string) (all []pkg, err error) {
	// Variants of packages that are made for a test are no packages of their own.
	const form = `{{if not .ForTest}}{{.ImportPath}} {{join .Deps " "}}{{end}}`
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-test", "-f", form}, patterns...)...)
	command.Stderr = os.Stderr
	listed, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return parse(string(listed)), nil
}

// parse reads the lines of go list: a package, and behind it the program of its tests,
// which is named like it with .test at the end.
func parse(listed string) (all []pkg) {
	at := map[string]int{}
	for line := range strings.Lines(listed) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		tested, _ := strings.CutSuffix(words[0], ".test")
		if i, known := at[tested]; known {
			all[i].tests, all[i].deps = true, words[1:]
			continue
		}
		at[words[0]] = len(all)
		all = append(all, pkg{path: words[0]})
	}
	return all
}

// split returns the packages to test and those left out, because their tests import
// one of without.
func split(all []pkg, without []string) (chosen, left []pkg) {
	for _, p := range all {
		if slices.ContainsFunc(without, func(path string) bool { return p.path == path || slices.Contains(p.deps, path) }) {
			left = append(left, p)
		} else {
			chosen = append(chosen, p)
		}
	}
	return chosen, left
}

// order puts those first that took longest, so that none of them runs alone at the
// end; of unknown ones those with tests.
func order(all []pkg, seconds map[string]float64) {
	slices.SortStableFunc(all, func(a, b pkg) int { return cmp.Compare(expected(b, seconds), expected(a, seconds)) })
}

// expected is how many seconds a package will take.
func expected(p pkg, seconds map[string]float64) float64 {
	switch s, known := seconds[p.path]; {
	case !p.tests:
		return 0
	case known:
		return s
	default:
		return unknown
	}
}

// unknown is the time of a package that no run has had, in seconds.
const unknown = 2
