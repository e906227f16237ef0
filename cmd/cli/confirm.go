package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// ErrNotConfirmed says that the answer to a question was not yes: nothing was done.
var ErrNotConfirmed = errors.New("not confirmed: nothing was changed")

// Confirmation are the flags of a command that deletes.
type Confirmation struct {
	DryRun bool `name:"dry-run" help:"Say what would be deleted, and delete nothing."`
	Yes    bool `name:"yes" short:"y" help:"Delete without asking."`
}

// Confirm returns nil where --yes was given or a person at the terminal answers yes
// to the question. Without a terminal it is a [UsageError] that names --yes.
func (c *Console) Confirm(f Confirmation, question string) error {
	if f.Yes {
		return nil
	}
	if in, ok := c.Stdin.(*os.File); !ok || !term.IsTerminal(int(in.Fd())) {
		return &UsageError{fmt.Errorf("%s There is no terminal to ask on: repeat the command with --yes, "+
			"or with --dry-run to see what it would do", question)}
	}
	return ask(c.Stdin, c.Stderr, question)
}

// ask puts the question to out and reads one line of in.
func ask(in io.Reader, out io.Writer, question string) error {
	if _, err := fmt.Fprintf(out, "%s [y/N] ", question); err != nil {
		return err
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return ErrNotConfirmed
}
