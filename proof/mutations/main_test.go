package main

import (
	"slices"
	"testing"
)

// TestMutationsFitTheCode checks that every patch applies, so that a change of the
// code that a mutation no longer fits is noticed at once.
//
// Promise(proof/mutations): Each rule that is taken out of the code is noticed by a test, the
// simulation or the soak.
func TestMutationsFitTheCode(t *testing.T) {
	mutations, err := load()
	if err != nil || len(mutations) < 33 {
		t.Fatalf("%d mutations, %v", len(mutations), err)
	}
	for _, m := range mutations {
		if !slices.Contains([]string{"sim", "notify", "soak", "tests"}, m.by) {
			t.Errorf("%s: by %q", m.name, m.by)
		}
		if err := m.apply("../..", "--check"); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	bad := mutation{name: "bad", patch: []byte("--- a/go.mod\n+++ b/go.mod\n@@ -1 +1 @@\n-module other\n+module third\n")}
	if bad.apply("../..", "--check") == nil {
		t.Error("a patch that does not fit is not noticed")
	}
}
