package notifications

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"keyfold/engine/notify"
)

// Real logs of shops, where there are some: folders below KEYFOLD_TEST_DATA with
// events.ndjson.gz and products.ndjson.gz. The start of each becomes notifications, in the
// soak all of it.
func TestRealLogs(t *testing.T) {
	if os.Getenv("KEYFOLD_TEST_DATA") == "" {
		return
	}
	folders, err := filepath.Glob(filepath.Join(os.Getenv("KEYFOLD_TEST_DATA"), "*", "events.ndjson.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range folders {
		folder := filepath.Dir(path)
		t.Run(filepath.Base(folder), func(t *testing.T) {
			l, err := ReadLog(head(t, path), open(t, filepath.Join(folder, "products.ndjson.gz")))
			if err != nil {
				t.Fatal(err)
			}
			checkLog(t, l)
		})
	}
}

func checkLog(t *testing.T, l Log) {
	c := DefaultConfig()
	c.Users = 0 // only those of the log
	c.Start = l.Actions[0].At.Time()
	c.Span = l.End().Time().Sub(c.Start) + time.Minute
	w := Generate(c, l)
	types, kinds := map[notify.EventType]int{}, map[Kind]int{}
	for _, e := range w.Events {
		types[e.Type]++
		kinds[e.Label.Kind]++
	}
	t.Logf("%d actions: %d notifications to %d users in %v: %v, %v", len(l.Actions), len(w.Events), len(w.Users), c.Span, types, kinds)
	checkEvents(t, w)
	if types[notify.Update] == 0 || types[notify.Security] == 0 || kinds[Retry] == 0 {
		t.Errorf("types %v, kinds %v", types, kinds)
	}
	for _, e := range w.Events {
		if e.At < l.Actions[0].At {
			t.Fatalf("%s comes before the log", e.Body)
		}
	}
}

// logStart is how much of a log is read outside the soak.
const logStart = 4_000

// head returns the first lines of a log.
func head(t *testing.T, path string) io.Reader {
	whole := open(t, path)
	if os.Getenv("KEYFOLD_SOAK") != "" {
		return whole
	}
	var start bytes.Buffer
	lines := bufio.NewScanner(whole)
	for n := 0; n < logStart && lines.Scan(); n++ {
		start.Write(append(lines.Bytes(), '\n'))
	}
	return &start
}

func open(t *testing.T, path string) io.Reader {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	text, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
