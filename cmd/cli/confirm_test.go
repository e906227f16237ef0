package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
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
