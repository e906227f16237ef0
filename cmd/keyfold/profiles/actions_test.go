package profiles

import (
	"testing"

	"keyfold/cmd/keyfold/app"
	"keyfold/service/dashboard"
)

// Erasing a user takes the user's dead letters: it must meet all of them, also while a page reads
// failures.
func TestErasingAUserMakesItsPassAlone(t *testing.T) {
	for _, a := range Actions(&app.App{}) {
		if a.Letters != (a.Name == dashboard.ForgetUser) {
			t.Errorf("%s: it makes a pass over dead letters: %t", a.Name, a.Letters)
		}
	}
}
