package main

import (
	"testing"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
)

// A call's parser knows the program's flags, whichever command is called.
func TestParserOfTheCalledCommand(t *testing.T) {
	all, err := commandLine.Parser(&commands{}, nil, cli.Streams{}, func(int) {})
	must.OK(t, err)
	for _, command := range all.Model.Children {
		for _, name := range append(command.Aliases, command.Name) {
			p, err := commandLine.Parser(&commands{}, []string{name}, cli.Streams{}, func(int) {})
			must.OK(t, err)
			if len(p.Model.Flags) != len(all.Model.Flags) || name != "config" && len(p.Model.Children) > 2 {
				t.Errorf("%s: %d flags and %d commands, want %d and those of two names at most", name, len(p.Model.Flags), len(p.Model.Children), len(all.Model.Flags))
			}
		}
	}
}
