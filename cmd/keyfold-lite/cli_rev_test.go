package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"keyfold/internal/cli"
)

// What a call's parser says is what the parser of all commands says.
func TestReviewCalledParserIsTheWholeOne(t *testing.T) {
	whole, err := commandLine.Parser(&commands{}, nil, cli.Streams{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	say := func(known, args []string) string {
		var out bytes.Buffer
		exited := false
		p, err := commandLine.Parser(&commands{}, known, cli.Streams{Stdout: &out, Stderr: &out}, func(int) { exited = true })
		if err != nil {
			return "no parser: " + err.Error()
		}
		c, err := p.Parse(args)
		said := fmt.Sprint(exited, out.String(), err)
		if err == nil && c.Selected() != nil {
			said += c.Selected().Path() + fmt.Sprint(c.Args)
		}
		return said
	}
	different, n := map[string]bool{}, 0
	for _, leaf := range whole.Model.Leaves(false) {
		path := strings.Fields(leaf.Path())
		variants := [][]string{
			path, append(slices.Clone(path), "--help"), append(slices.Clone(path), "--nonsense"), append(slices.Clone(path), "--log-levl=x"),
			append(slices.Clone(path), "extra"), append(slices.Clone(path), "extra", "more"),
			append([]string{"--output=json"}, path...), append([]string{"-o", "json"}, path...), append([]string{"--"}, path...),
			path[:1], {path[0], "--help"}, {path[0], "nonsense"}, {path[0], "lits"}, {path[0] + "x"}, {strings.ToUpper(path[0])}, {strings.ReplaceAll(path[0], "-", "")},
			append([]string{path[0], "-o", "json"}, path[1:]...), append([]string{path[0], "--"}, path[1:]...),
			append(slices.Clone(path), "--", "--help"),
		}
		for _, args := range variants {
			n++
			if all, called := say(nil, args), say(args, args); all != called && !different[strings.Join(args, " ")] {
				different[strings.Join(args, " ")] = true
				t.Errorf("%q:\nwhole  %.600s\ncalled %.600s", args, all, called)
			}
		}
	}
	t.Logf("%d calls", n)
}
