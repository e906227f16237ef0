package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestConfirm(t *testing.T) {
	for _, c := range []struct {
		flags  Confirmation
		answer string
		want   error
	}{
		{Confirmation{Yes: true}, "", nil},
		{Confirmation{}, "y\n", &UsageError{}}, // a pipe is no person
	} {
		console := &Console{Streams: Streams{Stdin: strings.NewReader(c.answer), Stderr: &bytes.Buffer{}}}
		err := console.Confirm(c.flags, "Erase user 17?")
		if _, usage := errors.AsType[*UsageError](err); usage != (c.want != nil) {
			t.Errorf("%+v, answer %q: %v", c.flags, c.answer, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "this command cannot be undone") {
			t.Errorf("the error begins with the question: %v", err)
		}
	}
}

// A call that would have to ask is refused before it asks a server.
func TestCheckConfirm(t *testing.T) {
	console := &Console{Streams: Streams{Stdin: strings.NewReader("y\n"), Stderr: &bytes.Buffer{}}}
	for flags, good := range map[Confirmation]bool{{}: false, {Yes: true}: true, {DryRun: true}: true} {
		if err := console.CheckConfirm(flags); (err == nil) != good {
			t.Errorf("%+v: %v", flags, err)
		}
	}
}

func TestAsk(t *testing.T) {
	for answer, yes := range map[string]bool{"y\n": true, "YES\n": true, "yes": true, "\n": false, "": false, "n\n": false, "yep\n": false} {
		var out bytes.Buffer
		err := ask(strings.NewReader(answer), &out, "Erase user 17?")
		if yes != (err == nil) || !yes && !errors.Is(err, ErrNotConfirmed) {
			t.Errorf("answer %q: %v", answer, err)
		}
		if out.String() != "Erase user 17? [y/N] " {
			t.Errorf("asked %q", out.String())
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 profiles", 1: "1 profile", 1241: "1,241 profiles"} {
		if got := Count(n, "profile"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", time.Minute: "1m", 119 * time.Minute: "1h", 47 * time.Hour: "1d", 30 * 24 * time.Hour: "30d",
	} {
		if got := Age(d); got != want {
			t.Errorf("Age(%v) = %q, want %q", d, got, want)
		}
		if _, ok := parseSpan(Age(d)); !ok {
			t.Errorf("Age(%v) is no length of time on the command line", d)
		}
	}
}

func TestShorten(t *testing.T) {
	for text, want := range map[string]string{"": "", "äöü": "äöü", "äöüß": "äö…"} {
		if got := Shorten(text, 3); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
