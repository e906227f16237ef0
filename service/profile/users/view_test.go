package users

import (
	"bytes"
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/source/catalog"
)

// Where no product can be compared with, the view says so, unless none was asked for.
func TestViewWithoutProducts(t *testing.T) {
	for asked, want := range map[int]bool{0: false, 5: true} {
		var out bytes.Buffer
		p := &ProfileView{Profile: &profile.Profile{UserID: 7, Version: 1}, asked: asked}
		console := cli.Console{Streams: cli.Streams{Stdout: &out}}
		if err := console.Emit(nil, p.Print); err != nil || strings.Contains(out.String(), "no product with a vector") != want {
			t.Errorf("%d asked for: %v, %s", asked, err, &out)
		}
		p.near = []catalog.Neighbour{{}}
		if out.Reset(); console.Emit(nil, p.Print) != nil || strings.Contains(out.String(), "no product with a vector") {
			t.Errorf("with a product: %s", &out)
		}
	}
}
