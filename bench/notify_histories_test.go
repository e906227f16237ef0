package main

import (
	"io"
	"strings"
	"testing"
)

func TestHistoriesPrintsWhatWasCompared(t *testing.T) {
	var out strings.Builder
	r := begin()
	c := historiesCmd{Count: 40, First: 7, Workers: 2}
	if err := c.run(t.Context(), r, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if r.Median("", "histories") != 40 || r.Median("", "decisions") < 40 || r.Figure("", "differences").Median != 0 {
		t.Error(text(r))
	}
	c = historiesCmd{Count: 1, First: 3, Trace: true}
	if err := c.run(t.Context(), r, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n < 5 {
		t.Errorf("a trace of %d lines\n%s", n, out.String())
	}
}
