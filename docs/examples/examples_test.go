// Package examples_test runs the examples as a shop would.
package examples_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/process"
)

func TestMain(m *testing.M) { process.Main(m) }

// client is the example of one language: its command lines up to the event.
type client struct {
	name string
	http []string
	amqp []string // nil: HTTP only
}

// golang builds the example in Go.
var golang = sync.OnceValues(func() (string, error) {
	dir, err := process.TempDir()
	if err != nil {
		return "", err
	}
	return process.Build(context.Background(), dir, "./golang")
})

// clients returns the examples.
func clients(t *testing.T) []client {
	t.Helper()
	golang, err := golang()
	must.OK(t, err)
	// Debian's packages for Python are seen by Debian's Python only.
	const python = "/usr/bin/python3"
	return []client{
		{"php", []string{"php", "http.php"}, []string{"php", "amqp.php"}},
		{"python", []string{python, "python/http_api.py"}, []string{python, "python/rabbitmq.py"}},
		{"node", []string{"node", "node/http_api.mjs"}, nil},
		{"golang", []string{golang, "http"}, []string{golang, "amqp"}},
	}
}

// with returns a command line with more arguments.
func with(command []string, arguments ...string) []string {
	return append(slices.Clone(command), arguments...)
}

// phrase is one that quoting, escaping and encoding can all spoil.
const phrase = `boots "für" 田中's </b> \ 50% $HOME`

// run runs a program with these variables added to its environment.
func run(t *testing.T, environment []string, input string, arguments ...string) (code int, output, errors string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Env = append(append(command.Environ(), "PYTHONDONTWRITEBYTECODE=1"), environment...)
	command.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if command.ProcessState == nil {
		t.Fatalf("%s does not run: %v; `make test` installs it, or: apt-get install --no-install-recommends php-cli php-amqplib php-doctrine-dbal php-mysql php-pgsql php-sqlite3 python3 python3-pika nodejs curl", arguments[0], err)
	}
	return command.ProcessState.ExitCode(), strings.TrimSpace(out.String()), errs.String()
}

func TestSyntax(t *testing.T) {
	files, err := filepath.Glob("*.php")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if code, out, errs := run(t, nil, "", "php", "-l", file); code != 0 {
			t.Errorf("%s: %s%s", file, out, errs)
		}
	}
	if code, _, errs := run(t, nil, "", "bash", "-n", "curl.sh"); code != 0 {
		t.Errorf("curl.sh: %s", errs)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range clients(t) {
		for _, command := range [][]string{c.http, c.amqp} {
			if command == nil {
				continue
			}
			if code, _, errs := run(t, nil, "", with(command, "search")...); code != 2 || !strings.Contains(errs, "usage") {
				t.Errorf("%v without arguments: %d %s", command, code, errs)
			}
		}
	}
}

// checkEvent checks what arrived of an event that was sent with a reference.
func checkEvent(t *testing.T, body string, want profile.Event) profile.Event {
	t.Helper()
	e, err := profile.ParseEvent([]byte(body), time.Now())
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if e.UserID != want.UserID || e.Type != want.Type || e.Phrase != want.Phrase || e.ProductID != want.ProductID {
		t.Errorf("it arrived as %+v", e)
	}
	// The id is the one that keyfold would have made.
	without := strings.Replace(body, `"message_id":"`+e.MessageID+`",`, "", 1)
	again, err := profile.ParseEvent([]byte(without), time.Now())
	if err != nil || again.MessageID != e.MessageID || without == body {
		t.Errorf("its id is %s, keyfold's %s (%v)", e.MessageID, again.MessageID, err)
	}
	return e
}
