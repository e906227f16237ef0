// Package examples_test runs the examples as a shop would.
package examples_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"keyfold/bench/testserver/process"
	"keyfold/engine"
)

func TestMain(m *testing.M) { process.Main(m) }

// phrase is one that quoting, escaping and encoding can all spoil.
const phrase = `boots "für" 田中's </b> \ 50% $HOME`

// run runs a program with these variables added to its environment.
func run(t *testing.T, environment []string, input string, arguments ...string) (code int, output, errors string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Env = append(command.Environ(), environment...)
	command.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if command.ProcessState == nil {
		t.Fatalf("%s does not run: %v; `make test` installs it, or: apt-get install --no-install-recommends php-cli php-amqplib curl", arguments[0], err)
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
	for _, file := range []string{"http.php", "amqp.php"} {
		if code, _, errs := run(t, nil, "", "php", file, "search"); code != 2 || !strings.Contains(errs, "usage") {
			t.Errorf("%s without arguments: %d %s", file, code, errs)
		}
	}
}

// checkEvent checks what arrived of an event that was sent with a reference.
func checkEvent(t *testing.T, body string, want engine.Event) engine.Event {
	t.Helper()
	e, err := engine.ParseEvent([]byte(body), time.Now())
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if e.UserID != want.UserID || e.Type != want.Type || e.Phrase != want.Phrase || e.ProductID != want.ProductID {
		t.Errorf("it arrived as %+v", e)
	}
	// The id is the one that keyfold would have made.
	without := strings.Replace(body, `"message_id":"`+e.MessageID+`",`, "", 1)
	again, err := engine.ParseEvent([]byte(without), time.Now())
	if err != nil || again.MessageID != e.MessageID || without == body {
		t.Errorf("its id is %s, keyfold's %s (%v)", e.MessageID, again.MessageID, err)
	}
	return e
}
