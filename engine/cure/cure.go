// Package cure lets a package say what cures a fault without knowing the program that it is
// part of: two programs have different variables and commands for the same thing.
package cure

import (
	"fmt"
	"maps"
)

// Name is what a package calls a setting or a command, as code calls them: a setting by the
// field that it sets (outbox.Cleanup.After), a command by the function that it calls
// (outbox.Setup). In a text it is the program's word for it.
type Name string

// words are the words of this process's program. Texts are made everywhere, and some are
// stored, so that a program gives its words once, before it makes any.
var words = map[Name]string{}

// Use gives names the words of a program: a variable such as OUTBOX_CLEANUP_AFTER, a command
// as it is typed, in backquotes. It is called in an init function only.
func Use(program map[Name]string) { maps.Copy(words, program) }

// String returns the program's word, and the name itself where the program has none.
func (n Name) String() string {
	if word, ok := words[n]; ok {
		return word
	}
	return string(n)
}

// New returns an error whose text names cures and is made when it is read: a package makes its
// errors before the program gives its words.
func New(format string, cures ...Name) error { return &late{format, cures} }

type late struct {
	format string
	cures  []Name
}

func (l *late) Error() string {
	args := make([]any, len(l.cures))
	for i, name := range l.cures {
		args[i] = name
	}
	return fmt.Sprintf(l.format, args...)
}
