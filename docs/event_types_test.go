package docs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"keyfold/engine/profile"
	_ "keyfold/internal/settings" // the names of variables
	"keyfold/internal/testserver/must"
)

func TestPagesNameEveryEventType(t *testing.T) {
	pages := map[string]string{}
	for _, name := range []string{"INGEST.md", "LITE.md", "SETTINGS.md"} {
		text, err := os.ReadFile(name)
		must.OK(t, err)
		pages[name] = string(text)
	}
	var settings, weights []string
	for _, eventType := range profile.EventTypes() {
		settings = append(settings, eventType.WeightSetting().String())
		weight := fmt.Sprint(profile.DefaultWeights()[eventType])
		if !strings.Contains(weight, ".") {
			weight += ".0"
		}
		weights = append(weights, weight)
		for _, page := range []string{"INGEST.md", "LITE.md"} {
			if row := rowOf(pages[page], "`event_type`"); !strings.Contains(row, "`"+eventType.String()+"`") {
				t.Errorf("%s does not name %s in the row of event_type: %s", page, eventType, row)
			}
		}
	}
	want := "| " + strings.Join(settings, ", ") + " | " + strings.Join(weights, ", ") + " |"
	if !strings.Contains(pages["SETTINGS.md"], want) {
		t.Errorf("SETTINGS.md lacks %s", want)
	}
}

// rowOf returns a table's row by its first column, "" for none.
func rowOf(page, first string) string {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| "+first+" |") {
			return line
		}
	}
	return ""
}
