package outbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
)

// One process publishes from an SQLite file: of two, the second says who has to
// stop, and goes on when the first has.
//
// Promise(outbox/sqlite-one-relay): Of two processes that publish from one SQLite file the second says
// who has to stop, and goes on when the first has ended.
func TestASQLiteFileHasOneRelay(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	must.OK(t, os.Symlink(folder, link))
	// The file is still to be made when its path is looked at first.
	first := openAt(t, "sqlite://"+filepath.Join(link, "outbox.db"))
	must.OK(t, os.Symlink(filepath.Join(folder, "outbox.db"), filepath.Join(folder, "other.db")))
	second := openAt(t, "sqlite://"+filepath.Join(folder, "other.db"))
	fill(t, first, 5, 50)
	var one, other broker
	stop := running(t, NewRelay(first, &one, brisk(), quiet))
	drained(t, first)
	fill(t, second, 5, 50) // storing takes any number of processes
	drained(t, first)

	late := NewRelay(second, &other, brisk(), quiet)
	if _, err := late.Drain(t.Context(), Filter{}, nil); err != nil {
		t.Errorf("with nothing to publish: %v", err)
	}
	stop()
	fill(t, second, 5, 500)
	if _, err := late.Drain(t.Context(), Filter{}, nil); engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), "another process publishes") {
		t.Errorf("a second process: %v", err)
	}
	running(t, late)
	must.Hold(t, "the relay says why it publishes nothing", func() bool { return engine.ReasonOf(late.Fault()) == "relayed_elsewhere" })
	must.OK(t, first.Close())
	drained(t, second)
	one.expectOrder(t)
	if other.calls == 0 {
		t.Error("the second published nothing")
	}
}
