// Package must ends tests that cannot go on.
package must

import (
	"errors"
	"strings"
	"testing"
	"time"

	"keyfold/engine"
)

// fataler is a testing.TB, a test of package rapid, or what a package has for both.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// OK ends the test where there is an error.
func OK(t fataler, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Fault expects a configuration fault whose text names all of words.
func Fault(t testing.TB, err error, reason string, words ...string) {
	t.Helper()
	if engine.KindOf(err) != engine.Configuration || engine.ReasonOf(err) != reason {
		t.Fatalf("got %v (%s), want the configuration fault %s", err, engine.ReasonOf(err), reason)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not name %q", err, word)
		}
	}
}

// patience is time enough on a machine that is busy elsewhere: it only bounds a failure.
const patience = 5 * time.Minute

// Hold waits until a condition holds. Looking may cost a server more than the work that
// is waited for: it is done less often the longer it takes.
func Hold(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); {
		waited := time.Since(began)
		if waited > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(min(2*time.Millisecond+waited/10, 100*time.Millisecond))
	}
}
