package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"
)

// ErrNotConfirmed says that the answer to a question was not yes: nothing was done.
var ErrNotConfirmed = errors.New("not confirmed: nothing was changed")

var errNoTerminal = errors.New("this command cannot be undone, and there is no terminal to ask on: " +
	"repeat it with --yes, or with --dry-run to see what it would do")

// Confirmation are the flags of a command that cannot be undone.
type Confirmation struct {
	DryRun bool `name:"dry-run" help:"Say what would be done, and do nothing."`
	Yes    bool `name:"yes" short:"y" help:"Do it without asking; needed where there is no terminal to ask on."`
}

// Done says what the command did, or would do: "deleted", "would be deleted".
func (f Confirmation) Done(participle string) string {
	if f.DryRun {
		return "would be " + participle
	}
	return participle
}

// CheckConfirm refuses a call that would have to ask where there is no terminal.
func (c *Console) CheckConfirm(f Confirmation) error {
	if f.DryRun || f.Yes || c.atTerminal() {
		return nil
	}
	return errNoTerminal
}

// atTerminal reports whether a person can read a question and answer it.
func (c *Console) atTerminal() bool {
	in, reads := c.Stdin.(*os.File)
	out, writes := c.Stderr.(*os.File)
	return reads && writes && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}

// Confirm returns nil where --yes was given or a person at the terminal answers yes
// to the question. Without a terminal it is a [UsageError] that names --yes. Ctrl-C
// is a no.
func (c *Console) Confirm(f Confirmation, question string) error {
	if f.Yes {
		return nil
	}
	if !c.atTerminal() {
		return &UsageError{errNoTerminal}
	}
	// The read below knows no context.
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(stopped)
	answered := make(chan error, 1)
	go func() { answered <- ask(c.Stdin, c.Stderr, question) }()
	select {
	case err := <-answered:
		return err
	case <-stopped:
		fmt.Fprintln(c.Stderr)
		return ErrNotConfirmed
	}
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
