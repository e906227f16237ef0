package notifications

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"keyfold/engine/notify/rule"
	"keyfold/service/dashboard"
	"keyfold/sink/ledger/postgres"
)

// Each list of sets carries the notes: one that is long, or that the ledger cannot store, is refused
// before anything is planned.
func TestNotesOfSetsAreBounded(t *testing.T) {
	away := errors.New("the ledger is away")
	p := NewPages(nil, func(context.Context) (*postgres.Ledger, error) { return nil, away })
	for note, fits := range map[string]bool{
		strings.Repeat("ü", longestNote): true, strings.Repeat("ü", longestNote+1): false, "a\x00b": false, "a\xffb": false,
	} {
		form := url.Values{dashboard.FieldFile: {string(rule.Default())}, dashboard.FieldNote: {note}, dashboard.FieldIfActive: {"1"}, dashboard.FieldSet: {"1"}}
		for _, a := range p.actions() {
			if a.Do == nil {
				continue
			}
			if _, err := a.Plan(t.Context(), form, &dashboard.Progress{}); errors.Is(err, away) != fits {
				t.Errorf("%s with a note of %d bytes: %v", a.Name, len(note), err)
			}
		}
	}
}
