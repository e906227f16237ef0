package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"keyfold/internal/settings"
)

// completeFiles is the line that tells a shell's script to complete the name of a file.
const completeFiles = ":files"

// printCandidates writes what the last of words may become, a line each: the word,
// a tab, what it means.
func printCandidates(app *kong.Application, words []string, w io.Writer) error {
	c := completion{node: app.Node}
	last := ""
	if n := len(words); n > 0 {
		for _, word := range words[:n-1] {
			c.pass(word)
		}
		last = words[n-1]
	}
	_, err := io.WriteString(w, strings.Join(c.candidates(last), ""))
	return err
}

// completion is how far a command line has been understood.
type completion struct {
	node   *kong.Node
	args   int        // positional arguments of node
	wanted *kong.Flag // its value comes next; nil: no value does
}

// pass takes a word that is complete. Bash gives "=" as a word of its own.
func (c *completion) pass(word string) {
	name, _, valued := strings.Cut(word, "=")
	child := c.child(word)
	switch {
	case word == "=":
	case c.wanted != nil:
		c.wanted = nil
	case strings.HasPrefix(word, "-"):
		if flag := c.flag(name); flag != nil && !valued && !flag.IsBool() {
			c.wanted = flag
		}
	case child != nil:
		c.node, c.args = child, 0
	default:
		c.args++
	}
}

// candidates returns what a word that is being typed may become.
func (c *completion) candidates(word string) []string {
	name, value, valued := strings.Cut(word, "=")
	switch {
	case c.wanted != nil:
		return values(c.wanted.Value, "", strings.TrimPrefix(word, "="))
	case strings.HasPrefix(word, "-") && valued:
		if flag := c.flag(name); flag != nil {
			return values(flag.Value, name+"=", value)
		}
		return nil
	case strings.HasPrefix(word, "-"):
		return c.flagNames(word)
	}
	var found []string
	for _, child := range c.node.Children {
		if !child.Hidden {
			found = appendCandidate(found, word, child.Name, child.Help)
		}
	}
	if n := len(c.node.Positional); n > 0 && (c.args < n || c.node.Positional[n-1].IsCumulative()) {
		found = append(found, values(c.node.Positional[min(c.args, n-1)], "", word)...)
	}
	return found
}

func (c *completion) flagNames(word string) (found []string) {
	used := settings.UsedBy(c.node)
	for _, flag := range c.flags() {
		if used(flag) {
			found = appendCandidate(found, word, "--"+flag.Name, flag.Help)
		}
	}
	return found
}

func (c *completion) child(name string) *kong.Node {
	for _, child := range c.node.Children {
		if child.Name == name || slices.Contains(child.Aliases, name) {
			return child
		}
	}
	return nil
}

func (c *completion) flag(name string) *kong.Flag {
	for _, flag := range c.flags() {
		if name == "--"+flag.Name || flag.Short != 0 && name == "-"+string(flag.Short) {
			return flag
		}
	}
	return nil
}

// flags returns those of the command, of the commands above it, and of the command
// that is meant where none is named.
func (c *completion) flags() (all []*kong.Flag) {
	if c.node.DefaultCmd != nil {
		all = append(all, c.node.DefaultCmd.Flags...)
	}
	for n := c.node; n != nil; n = n.Parent {
		all = append(all, n.Flags...)
	}
	return all
}

// values returns what the value of a flag or of an argument may become.
func values(v *kong.Value, before, word string) (found []string) {
	words := v.Tag.Get("words") // of a setting, which is judged later than the parser judges an enum
	if v.Enum != "" {
		words = v.Enum
	}
	if named, ok := v.Target.Interface().(interface{ Words() string }); ok {
		words = named.Words()
	}
	if words == "" {
		if place := v.Tag.PlaceHolder; place == "FILE" || place == "DIR" || v.Name == "file" || strings.HasSuffix(v.Name, "-file") {
			return []string{completeFiles + "\n"}
		}
		return nil
	}
	for w := range strings.SplitSeq(words, ",") {
		found = appendCandidate(found, before+word, before+w, "")
	}
	return found
}

func appendCandidate(found []string, typed, word, help string) []string {
	if !strings.HasPrefix(word, typed) {
		return found
	}
	return append(found, fmt.Sprintf("%s\t%s\n", word, help))
}
