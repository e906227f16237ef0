package cure_test

import (
	"fmt"
	"testing"

	"keyfold/engine/cure"
)

// A name is the program's word where the program has one, in errors too that a package made
// before the program gave its words.
func TestNamesBecomeTheProgramsWords(t *testing.T) {
	const after, other cure.Name = "test.After", "test.Other"
	early := cure.New("set %s or %s", after, other)
	if got := early.Error(); got != "set test.After or test.Other" {
		t.Errorf("without words: %q", got)
	}
	cure.Use(map[cure.Name]string{after: "TEST_AFTER"})
	if got := early.Error(); got != "set TEST_AFTER or test.Other" {
		t.Errorf("with the word of one: %q", got)
	}
	if got := fmt.Sprintf("%s %v %q", after, after, other); got != `TEST_AFTER TEST_AFTER "test.Other"` {
		t.Errorf("formatted: %q", got)
	}
}
