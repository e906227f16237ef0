package main

import (
	"io"
	"regexp"
	"strings"
	"testing"
)

func TestHistoriesPrintsWhatWasCompared(t *testing.T) {
	var out strings.Builder
	c := historiesCmd{Count: 40, First: 7, Workers: 2}
	if err := c.run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^40 histories, \d+ decisions, 0 differences\n$`).MatchString(out.String()) {
		t.Error(out.String())
	}
	out.Reset()
	c = historiesCmd{Count: 1, First: 3, Trace: true}
	if err := c.run(t.Context(), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n < 5 {
		t.Errorf("a trace of %d lines\n%s", n, out.String())
	}
}
