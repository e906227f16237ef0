package settings

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Help prints a command's help with the settings that the command uses. Every setting
// stays a flag of every command, so that it may stand before the command.
func Help(options kong.HelpOptions, ctx *kong.Context) error {
	used := UsedBy(ctx.Selected())
	for _, flag := range ctx.Model.Flags {
		flag.Hidden = !used(flag)
	}
	options.Compact, options.FlagsLast, options.NoExpandSubcommands, options.WrapUpperBound = true, true, true, 110
	return kong.DefaultHelpPrinter(options, ctx)
}

// UsedBy tells the settings that a command uses: a setting has the tag `for`, and a
// command, or the command above it, lists such tags in `uses`. A setting without the
// tag, and any other flag, is used by all commands. nil stands for the program, which
// uses only these.
func UsedBy(command *kong.Node) func(*kong.Flag) bool {
	var used []string
	for n := command; n != nil; n = n.Parent {
		if n.Tag != nil {
			used = append(used, strings.Split(n.Tag.Get("uses"), ",")...)
		}
	}
	return func(flag *kong.Flag) bool {
		tag := flag.Tag.Get("for")
		return tag == "" || slices.Contains(used, tag)
	}
}
