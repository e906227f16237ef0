package settings

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Help prints a command's help with the settings that the command uses: a setting
// has the tag `for`, and a command, or the command above it, lists such tags in
// `uses`. The program's own help shows the settings of all commands only. Every
// setting stays a flag of every command, so that it may stand before the command.
func Help(options kong.HelpOptions, ctx *kong.Context) error {
	var used []string
	for n := ctx.Selected(); n != nil; n = n.Parent {
		if n.Tag != nil {
			used = append(used, strings.Split(n.Tag.Get("uses"), ",")...)
		}
	}
	for _, flag := range ctx.Model.Flags {
		if user := flag.Tag.Get("for"); user != "" {
			flag.Hidden = !slices.Contains(used, user)
		}
	}
	options.Compact, options.FlagsLast, options.NoExpandSubcommands, options.WrapUpperBound = true, true, true, 110
	return kong.DefaultHelpPrinter(options, ctx)
}
