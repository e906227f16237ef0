package profiles

import (
	"strings"
	"testing"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
)

// Why no profile was made of a history: each case has its own words.
func TestEmptyHistory(t *testing.T) {
	for want, h := range map[string]struct {
		history
		processor.Rebuilt
	}{
		"no event of user 7 is in the outbox (a prune may have deleted it)":           {},
		"3 events of user 7 in the outbox: none is published yet":                     {history{rows: 3, unsent: 3}, processor.Rebuilt{}},
		"10 rows in the outbox, and no event that a profile can be made from: 1 wait": {history{rows: 10, unsent: 1, damaged: 4}, processor.Rebuilt{Missing: 2, Dead: 3}},
		"2 have an unknown product, 3 an unusable vector, 4 cannot be read":           {history{rows: 10, unsent: 1, damaged: 4}, processor.Rebuilt{Missing: 2, Dead: 3}},
	} {
		if err := h.empty(7, h.Rebuilt); !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// The question names what would be erased.
func TestForgetQuestion(t *testing.T) {
	one, none := int64(1), int64(0)
	for want, f := range map[string]forgotten{
		"Erase user 7 (a profile of 1,241 events, 1 stored interaction, 0 dead letters)? There is no way back.": {
			UserID: 7, before: &profile.Profile{EventCount: 1241}, Interactions: &one, DeadLetters: &none,
		},
		"Erase user 7 (a profile that cannot be read, 1 stored interaction, dead letters not looked at)? There is no way back.": {
			UserID: 7, damaged: true, Interactions: &one,
		},
		"Erase user 7 (no profile, stored interactions not looked at, 1 dead letter)? There is no way back.": {
			UserID: 7, DeadLetters: &one,
		},
		"User 7 was erased at 1970-01-01T00:00:01Z. Erase what came since (0 stored interactions, 1 dead letter)?": {
			UserID: 7, before: &profile.Profile{ErasedAt: 1000}, Interactions: &none, DeadLetters: &one,
		},
	} {
		if got := f.question(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A user of whom nothing is stored may be a mistyped one; what was not looked at is told.
func TestForgetOfAnUnknownUser(t *testing.T) {
	none, one := int64(0), int64(1)
	a := &app.App{}
	a.Servers.Database, a.Servers.SQL = "shop", "sqlite:///x"
	for want, f := range map[string]forgotten{
		"no profile in the database shop, no row and no archived letter in DATABASE_URL, no dead letter:": {Interactions: &none, DeadLetters: &none},
		"DATABASE_URL was not reached, the dead letters were not reached: is the id right?":               {},
	} {
		if err := f.unknown(a); f.known() || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, f := range []forgotten{{before: &profile.Profile{}}, {damaged: true}, {Interactions: &one}, {DeadLetters: &one}} {
		if !f.known() {
			t.Errorf("%+v is not known", f)
		}
	}
}
