package cli

import (
	"github.com/alecthomas/kong"

	"keyfold/internal/version"
)

// VersionCmd prints which build runs.
type VersionCmd struct{}

// Answer implements [Plain].
func (VersionCmd) Answer(command *kong.Context, c Console) error { return printVersion(command, c) }

// versionFlag is the same as a flag, wherever it stands.
type versionFlag bool

// BeforeReset is called by the parser where the flag was given.
func (versionFlag) BeforeReset(command *kong.Context) error {
	err := printVersion(command, Console{Streams{Stdout: command.Stdout}, wantsJSON(command)})
	command.Exit(0)
	return err
}

func printVersion(command *kong.Context, c Console) error {
	build := version.Read()
	return c.Emit(build, func(w *Text) { w.Line("%s %v", command.Model.Name, build) })
}

// wantsJSON reads the flag of [Options] before the options are set.
func wantsJSON(command *kong.Context) bool {
	for _, flag := range command.Flags() {
		if flag.Name == "output" {
			return command.FlagValue(flag) == "json"
		}
	}
	return false
}
