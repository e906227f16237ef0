package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keyfold/engine/notify"
	"keyfold/internal/testserver/must"
)

// NOTIFICATIONS.md describes the stages that a decision runs: their numbers, their names and
// the reasons with which they decide.
func TestNotificationsHasEveryStage(t *testing.T) {
	text, err := os.ReadFile("NOTIFICATIONS.md")
	must.OK(t, err)
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| \*\*(.+?)\*\*: .* \| (.*) \|$`).FindAllStringSubmatch(string(text), -1)
	if len(rows) != len(notify.Stages) {
		t.Fatalf("the page has %d stages, a decision %d", len(rows), len(notify.Stages))
	}
	code := regexp.MustCompile("`([A-Z0-9_]+)`")
	for i, row := range rows {
		stage := notify.Stages[i]
		if row[1] != fmt.Sprint(i+1) || row[2] != stage.Name {
			t.Errorf("stage %d, %s, is on the page as %s, %s", i+1, stage.Name, row[1], row[2])
		}
		var reasons []string
		if strings.Contains(row[3], notify.RuleReason) {
			reasons = append(reasons, notify.RuleReason)
		}
		for _, found := range code.FindAllStringSubmatch(row[3], -1) {
			reasons = append(reasons, found[1])
		}
		if !slices.Equal(reasons, stage.Reasons) {
			t.Errorf("stage %d, %s: the page has the reasons %q, a decision %q", i+1, stage.Name, reasons, stage.Reasons)
		}
	}
}
