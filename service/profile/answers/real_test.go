package answers

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
	"keyfold/source/catalog"
	"keyfold/source/vector"
)

// On real logs, where there are some (folders below KEYFOLD_TEST_DATA), every answer by a profile
// has the product that is asked for where an evaluation puts it, with two vectors as well, for a
// sample of the users.
func TestRealLogsThroughTheEndpoint(t *testing.T) {
	t.Parallel()
	if os.Getenv("KEYFOLD_TEST_DATA") == "" {
		return // generated logs are asked in TestEqualsAnEvaluation
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv("KEYFOLD_TEST_DATA"), "*", "events.ndjson.gz"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no log below KEYFOLD_TEST_DATA")
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			t.Parallel()
			in := readLog(t, file, 128)
			in.Laws.ShortHalfLife = time.Minute
			o := options(10, "mix=0", "mix=0.5", "mix=1")
			o.WarmUp, o.Users = 0.6, 0.03
			r, err := Evaluate(t.Context(), *in, o)
			must.OK(t, err)
			for _, row := range r.Rows[:3] {
				if e := row.Endpoint; e.Differ != 0 || e.Compared == 0 || e.Compared != e.ByProfile || e.ByProfile+e.ByPopularity != r.Questions {
					t.Errorf("%s: %+v of %d questions", row.Name, e, r.Questions)
				}
			}
		})
	}
}

// readLog reads a log whose products get vectors of their names.
func readLog(t *testing.T, file string, dimensions int) *Input {
	t.Helper()
	in := newInput(nil, dimensions)
	hash, err := vector.NewHash(dimensions)
	must.OK(t, err)
	if in.Phrases, err = vector.NewPhrases(vector.DefaultConfig(), hash); err != nil {
		t.Fatal(err)
	}
	for p, err := range catalog.ReadProducts(open(t, filepath.Join(filepath.Dir(file), "products.ndjson.gz")).Lines) {
		must.OK(t, err)
		vectors, err := hash.Embed(t.Context(), []string{catalog.EmbedText(p)})
		must.OK(t, err)
		p.Vector, p.Model = vectors[0], "m"
		in.Products[p.ID] = p
	}
	log := open(t, file)
	for {
		body, err := log.Next()
		if errors.Is(err, io.EOF) {
			return in
		}
		must.OK(t, err)
		if e, err := profile.ParseEvent(body, time.Now()); err == nil {
			in.Events = append(in.Events, e)
		}
	}
}

func open(t *testing.T, path string) *cli.Input {
	t.Helper()
	in, err := cli.OpenInput(path, nil)
	must.OK(t, err)
	t.Cleanup(func() { in.Close() })
	return in
}
