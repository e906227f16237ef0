// Package clitest runs cases of a command line that are written as sessions: the commands a person
// types, each with its whole output below it.
package clitest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"keyfold/internal/cli"
)

// Run runs the scripts in testdata/script, each as a subtest in a folder of its own. KEYFOLD_UPDATE=1
// rewrites the output that they expect.
//
// A script's command `session FILE` calls run for each line of FILE that begins with "$ " and prints the
// session anew. As in a shell, NAME=VALUE before the program's name holds for one command; `export` holds
// for the script. What a command prints to standard error follows its output, after "! "; then its exit
// code, if it is not 0. A line that begins with "#" is a comment.
func Run(t *testing.T, program string, run func(context.Context, []string, cli.Streams) int) {
	dir, err := filepath.Abs("testdata/script")
	if err != nil {
		t.Fatal(err)
	}
	testscript.RunT(inTurn{t}, testscript.Params{
		Dir:           dir,
		UpdateScripts: os.Getenv("KEYFOLD_UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			env.Values[inTurn{}] = env.T().(inTurn).T
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"session": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg || len(args) != 1 {
					ts.Fatalf("usage: session FILE")
				}
				t := ts.Value(inTurn{}).(*testing.T)
				work := ts.Getenv("WORK")
				t.Chdir(work)
				session := &session{t: t, program: program, run: run}
				for line := range strings.Lines(ts.ReadFile(args[0])) {
					session.line(line)
				}
				// testscript's folder has another name each time.
				_, err := ts.Stdout().Write(bytes.ReplaceAll(session.printed.Bytes(), []byte(work), []byte("WORK")))
				ts.Check(err)
			},
		},
	})
}

type session struct {
	t       *testing.T
	program string
	run     func(context.Context, []string, cli.Streams) int
	printed bytes.Buffer
	comment bool // the last line printed is one
}

// line copies a comment, runs a command, and leaves out what an earlier run printed.
func (s *session) line(line string) {
	if strings.HasPrefix(line, "#") {
		if s.printed.Len() > 0 && !s.comment {
			s.printed.WriteByte('\n')
		}
		s.printed.WriteString(line)
		s.comment = true
		return
	}
	command, typed := strings.CutPrefix(line, "$ ")
	if !typed {
		return
	}
	s.comment = false
	s.printed.WriteString(line)
	words := strings.Fields(command)
	if words[0] == "export" {
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			s.t.Setenv(name, value)
		}
		return
	}
	for ; len(words) > 0 && words[0] != s.program; words = words[1:] {
		name, value, assigned := strings.Cut(words[0], "=")
		if !assigned {
			s.t.Fatalf("%s is neither %s nor NAME=VALUE: %s", words[0], s.program, line)
		}
		defer restore(name)()
		os.Setenv(name, value)
	}
	if len(words) == 0 {
		s.t.Fatalf("no command follows the variables: %s", line)
	}
	var errs bytes.Buffer
	code := s.run(s.t.Context(), words[1:], cli.Streams{Stdin: strings.NewReader(""), Stdout: &s.printed, Stderr: &errs})
	for line := range strings.Lines(errs.String()) {
		s.printed.WriteString("! " + line)
	}
	if code != 0 {
		fmt.Fprintf(&s.printed, "exit code %d\n", code)
	}
}

// restore returns what gives a variable its present value again.
func restore(name string) func() {
	value, set := os.LookupEnv(name)
	if !set {
		return func() { os.Unsetenv(name) }
	}
	return func() { os.Setenv(name, value) }
}

// inTurn runs scripts one after the other: each changes the process's variables and folder.
type inTurn struct{ *testing.T }

func (inTurn) Parallel()     {}
func (inTurn) Verbose() bool { return testing.Verbose() }

func (t inTurn) Run(name string, do func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { do(inTurn{t}) })
}
