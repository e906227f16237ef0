package notifications

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/profile"
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
			l, err := readLog(head(t, path), open(t, filepath.Join(folder, "products.ndjson.gz")))
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
	c.Span = endOf(l).Time().Sub(c.Start) + time.Minute
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

// readLog reads a shop's events, one a line in keyfold's wire format, and its products
// likewise. Of an event's metadata it takes order_id, price, device and country.
// Products may be nil.
func readLog(events, products io.Reader) (Log, error) {
	l := Log{Products: map[int32]profile.Product{}}
	err := eachLine(events, func(line []byte) error {
		a, err := readAction(line)
		if err == nil {
			l.Actions = append(l.Actions, a)
		}
		return err
	})
	if err != nil {
		return Log{}, fmt.Errorf("events: %w", err)
	}
	l.sort()
	if products == nil {
		return l, nil
	}
	err = eachLine(products, func(line []byte) error {
		var p struct {
			ID       int32  `json:"product_id"`
			Name     string `json:"product_name"`
			Category string `json:"category"`
		}
		if err := json.Unmarshal(line, &p); err != nil {
			return err
		}
		l.Products[p.ID] = profile.Product{ID: p.ID, Name: p.Name, Category: p.Category}
		return nil
	})
	if err != nil {
		return Log{}, fmt.Errorf("products: %w", err)
	}
	return l, nil
}

func eachLine(r io.Reader, do func([]byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if err := do(lines.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

// endOf returns the time of the last action, 0 where there is none.
func endOf(l Log) engine.Millis {
	if len(l.Actions) == 0 {
		return 0
	}
	return l.Actions[len(l.Actions)-1].At
}
