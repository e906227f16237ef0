package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/proof/oracle"
	"keyfold/service/profile/users"

	"keyfold/engine"
	"keyfold/source/sample"
)

// asProgram makes the test binary be keyfold-lite, so that a test can kill it.
const asProgram = "KEYFOLD_TEST_AS_PROGRAM"

// long is whether the program is killed as often as `make test-long` does.
var long = os.Getenv("KEYFOLD_SOAK") != ""

// often returns one of two numbers.
func often(short, inLong int) int {
	if long {
		return inLong
	}
	return short
}

// kill -9 at random moments of one job: at the end every profile is the
// oracle's and every event is accounted for. The input comes through a pipe and
// its end is held back, so that each kill meets a job that is not done.
func TestKill9(t *testing.T) {
	lines := eventLines(t, 400)
	data := filepath.Join(t.TempDir(), "data")
	products := shopFile(t)
	args := []string{small, "--data", data, "--products", products, "--events", "-", "--exit"}
	pendingAfter := 0
	kills := often(5, 200)
	for i := range kills {
		upTo := lines[:len(lines)*(i+1)/(kills+1)]
		killed(t, rand.N(300*time.Millisecond), rand.IntN(2) == 0, upTo, args...)
		if pending(t, data) > 0 {
			pendingAfter++
		}
	}
	// A busy machine may not have read a line within these times. A window of an hour and
	// ever more time leave something in the end.
	for wait := time.Second; pendingAfter == 0 && wait < 2*time.Minute; wait *= 2 {
		killed(t, wait, true, lines, append(args, "--batch-window=1h", "--batch-max-delay=1h")...)
		pendingAfter = min(1, pending(t, data))
	}
	if pendingAfter == 0 {
		t.Error("no kill left anything to recover: the test proves nothing")
	}
	last := fold(t, string(bytes.Join(lines, []byte("\n"))), small, "--data", data, "--products", products, "--events", "-")
	t.Logf("%d of %d kills left events pending; the last run recovered %d and folded %d", pendingAfter, kills, last.Recovered, last.Folded)
	equalsOracle(t, data, lines)
}

// killed starts the program, feeds it lines, and kills it after a wait, which begins at
// the start or when it has read them.
func killed(t *testing.T, wait time.Duration, whenFed bool, lines [][]byte, args ...string) {
	t.Helper()
	program := exec.Command(os.Args[0], args...)
	program.Env = append(os.Environ(), asProgram+"=1")
	stdin, err := program.StdinPipe()
	must.OK(t, err)
	var errs bytes.Buffer
	program.Stderr = &errs
	must.OK(t, program.Start())
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		for _, line := range lines {
			if _, err := stdin.Write(append(line, '\n')); err != nil {
				return // it was killed
			}
		}
	}()
	if whenFed {
		<-fed
	}
	time.Sleep(wait)
	if err := program.Process.Kill(); err != nil {
		t.Fatalf("it had ended by itself: %s", errs.String())
	}
	if err := program.Wait(); err == nil {
		t.Fatalf("it had ended by itself: %s", errs.String())
	}
	<-fed
}

// pending counts what a killed program left in the inbox.
func pending(t *testing.T, data string) int {
	t.Helper()
	if _, err := os.Stat(filepath.Join(data, databaseName)); err != nil {
		return 0
	}
	file, err := openFile(&app{data: data})
	if err != nil {
		return 0 // killed before the file was made
	}
	defer file.Close()
	rows, err := file.QueryContext(t.Context(), "SELECT count(*) FROM inbox WHERE state = 0")
	if err != nil {
		return 0 // killed before the tables were made
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		must.OK(t, rows.Scan(&n))
	}
	return n
}

func equalsOracle(t *testing.T, data string, lines [][]byte) {
	t.Helper()
	config := profile.DefaultConfig()
	config.Dimensions, config.Model = 64, embedderModel
	o, err := oracle.New(config, sample.Products())
	must.OK(t, err)
	for _, line := range lines {
		must.OK(t, o.Add(line))
	}
	if err := o.CheckAll(exported(t, data)); err != nil {
		t.Error(err)
	}
}

// exported reads the profiles back from `user export`.
func exported(t *testing.T, data string) map[int32]*profile.Profile {
	t.Helper()
	code, out, errs := lite(t, "", "user", "export", "--data", data)
	if code != 0 {
		t.Fatal(errs)
	}
	all := map[int32]*profile.Profile{}
	decode := json.NewDecoder(bytes.NewReader([]byte(out)))
	for {
		var d users.Document
		if err := decode.Decode(&d); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[d.UserID] = &profile.Profile{
			UserID: d.UserID, Version: d.Version, Vector: d.Embedding, Mass: d.Mass, EventCount: d.EventCount,
			Updated: engine.MillisOf(*d.LastUpdated), LastType: profile.ParseEventType(d.LastEventType),
		}
	}
}
