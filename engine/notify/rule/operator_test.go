package rule

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"keyfold/internal/testserver/must"
)

// The page on rules names the operators, in their order.
func TestThePageNamesEveryOperator(t *testing.T) {
	text, err := os.ReadFile("../../../docs/examples/notify/README.md")
	must.OK(t, err)
	part := regexp.MustCompile(`(?s)"value"\}` + "`" + ` with (.*?)\.\n`).FindStringSubmatch(string(text))
	if part == nil {
		t.Fatal("the page has no list of operators")
	}
	var named []string
	for _, found := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(part[1], -1) {
		named = append(named, found[1])
	}
	if want := operatorsOf(nil); !slices.Equal(named, want) {
		t.Errorf("the page names %q, the table %q", named, want)
	}
}
