package history

import (
	"os"
	"regexp"
	"testing"

	"keyfold/internal/testserver/must"
)

// Histories ask for every operator that the page on rules names. That page is compared with
// the table of operators, so an operator without an oracle does not go unnoticed.
func TestHistoriesAskForEveryOperator(t *testing.T) {
	text, err := os.ReadFile("../../../docs/examples/notify/README.md")
	must.OK(t, err)
	part := regexp.MustCompile(`(?s)"value"\}` + "`" + ` with (.*?)\.\n`).FindSubmatch(text)
	if part == nil {
		t.Fatal("the page has no list of operators")
	}
	w, err := New()
	must.OK(t, err)
	w.rng.seed(1, 1)
	drawn := map[string]bool{}
	for range 2000 {
		drawn[w.newLeaf().(map[string]any)["operator"].(string)] = true
	}
	for _, found := range regexp.MustCompile("`([a-z_]+)`").FindAllSubmatch(part[1], -1) {
		if !drawn[string(found[1])] {
			t.Errorf("no history asks for %s: newLeaf, and compare in proof/notifyoracle/rules.go", found[1])
		}
	}
}
