package main

import (
	"io"
	"strings"
	"testing"

	"keyfold/internal/testserver/must"
)

func TestHistoriesPrintsWhatWasCompared(t *testing.T) {
	var out strings.Builder
	r := begin()
	c := historiesCmd{Count: 40, First: 7, Workers: 2}
	must.OK(t, c.run(t.Context(), r, &out, io.Discard))
	if r.Median("", "histories") != 40 || r.Median("", "decisions") < 40 || r.Figure("", "differences").Median != 0 {
		t.Error(text(r))
	}
	c = historiesCmd{Count: 1, First: 3, Trace: true}
	must.OK(t, c.run(t.Context(), r, &out, io.Discard))
	if n := strings.Count(out.String(), "\n"); n < 5 {
		t.Errorf("a trace of %d lines\n%s", n, out.String())
	}
}
