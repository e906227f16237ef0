package failpoint_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"keyfold/engine/failpoint"
	"keyfold/internal/testserver/must"
)

// The daemon as it is released holds no trace of the failpoints: not the name of
// the variable that would arm them, nor of one of the points. The tagged one
// does, so that the look is known to find something.
func TestReleaseBinaryHasNoFailpoints(t *testing.T) {
	for _, build := range []struct {
		tags string
		want bool
	}{{"", false}, {"failpoints", true}} {
		path := filepath.Join(t.TempDir(), "keyfold")
		out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", build.tags, "-o", path, "keyfold/cmd/keyfold").CombinedOutput()
		if err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		binary, err := os.ReadFile(path)
		must.OK(t, err)
		for _, text := range []string{"KEYFOLD_FAILPOINTS", "KEYFOLD_FAILPOINT_LOG", failpoint.LetterConfirmed, failpoint.BeforeSettle} {
			if got := bytes.Contains(binary, []byte(text)); got != build.want {
				t.Errorf("tags %q: %s in the binary is %t, want %t", build.tags, text, got, build.want)
			}
		}
	}
}

// A point costs nothing where it does not exist: as much as the empty loop.
func BenchmarkHit(b *testing.B) {
	b.Run("point", func(b *testing.B) {
		for b.Loop() {
			must.OK(b, failpoint.Hit(failpoint.BeforeAck))
		}
	})
	b.Run("nothing", func(b *testing.B) {
		for b.Loop() {
			continue
		}
	})
}
