package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/must"
	"keyfold/service/profile/recommend"
	"keyfold/sink/sqlite"
)

// lesson runs `products learn`.
func lesson(t *testing.T, data, into string, args ...string) (l learnt) {
	t.Helper()
	code, out, errs := lite(t, "", append([]string{"products", "learn", small, "--data", data, "--into", into, "--components=16", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &l); code != 0 || err != nil {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	return l
}

// catalogue returns the products of a folder.
func catalogue(t *testing.T, data string) (all []profile.Product) {
	t.Helper()
	file, err := sqlite.OpenReader(filepath.Join(data, databaseName))
	must.OK(t, err)
	defer file.Close()
	for _, stream := range file.ProductStreams(t.Context()) {
		for p, err := range stream {
			must.OK(t, err)
			all = append(all, p)
		}
	}
	return all
}

// What was learned of files and posts goes into another folder with all of their events: the
// first start there folds them, and users are recommended products with reasons. An erased
// user stays erased, and is not learned from.
func TestLearn(t *testing.T) {
	t.Parallel()
	defer http.DefaultClient.CloseIdleConnections()
	lines := eventLines(t, 60)
	half := len(lines) / 2
	data := filepath.Join(t.TempDir(), "data")
	fold(t, string(bytes.Join(lines[:half], []byte("\n"))), small, "--data", data, "--products", shopFile(t), "--events", "-")
	url, stop := server(t, small, "--data", data, "--batch-window=50ms", "--batch-max-delay=100ms")
	for _, line := range lines[half-20:] {
		if code, answer := post(t, url, string(line)); code != http.StatusAccepted {
			t.Fatalf("%d %s", code, answer)
		}
	}
	if code, _, errs := lite(t, "", "products", "learn", small, "--data", data, "--into", t.TempDir()); code == 0 || !strings.Contains(errs, "in use") {
		t.Errorf("beside a running one: %d %s", code, errs)
	}
	stop()
	into := filepath.Join(t.TempDir(), "learned")
	l := lesson(t, data, into)
	if l.Counts.Products != 240 || l.Written.Products != 240 || l.Learned == 0 || l.Copied != distinct(t, lines) || l.Already {
		t.Fatalf("%+v", l)
	}
	next := []string{fmt.Sprintf("--dimensions=%d", l.Dimensions), "--learned", l.Setting, "--data", into}
	rebuild(t, next...)
	before, after := exported(t, data), exported(t, into)
	for user, p := range before {
		if q := after[user]; q == nil || q.EventCount != p.EventCount || q.Updated != p.Updated || len(q.Vector) != l.Dimensions {
			t.Errorf("user %d: %d events, and another profile anew", user, p.EventCount)
		}
	}
	var a recommend.Answer
	code, out, errs := lite(t, "", append([]string{"recommend", "1", "-o", "json"}, next...)...)
	if err := json.Unmarshal([]byte(out), &a); code != 0 || err != nil || a.Basis != recommend.ByProfile || len(a.Products) != 10 || len(a.Products[0].Because) == 0 {
		t.Errorf("%d %v %s%s", code, err, out, errs)
	}
	if code, _, errs := lite(t, "", "rebuild", small, "--data", into); code == 0 || !strings.Contains(errs, fmt.Sprintf("set EMBEDDING_DIMENSIONS=%d EMBEDDING_LEARNED=%q", l.Dimensions, l.Setting)) {
		t.Errorf("without the settings: %d %s", code, errs)
	}
	forgetting(t, data, l)
}

// forgetting erases a user before another lesson.
func forgetting(t *testing.T, data string, all learnt) {
	t.Helper()
	if code, _, errs := lite(t, "", "user", "forget", "1", "--yes", "--data", data); code != 0 {
		t.Fatal(errs)
	}
	into := filepath.Join(t.TempDir(), "without")
	l := lesson(t, data, into)
	if l.Users != all.Users-1 || l.Copied >= all.Copied || l.Setting == all.Setting {
		t.Errorf("%+v, without user 1 %+v", all, l)
	}
	if code, out, errs := lite(t, "", "user", "show", "1", "--data", into); code != 0 || !strings.Contains(out, "erased") {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
}

// The same events have the same vectors and the same name; what a killed run has left is
// replaced; a folder in use, and the one that is read, are not written to.
func TestLearnAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, one, two := filepath.Join(dir, "data"), filepath.Join(dir, "one"), filepath.Join(dir, "two")
	fold(t, string(bytes.Join(eventLines(t, 40), []byte("\n"))), small, "--data", data, "--products", shopFile(t), "--events", "-")
	first := lesson(t, data, one)
	must.OK(t, os.MkdirAll(two, 0o750))
	for _, tail := range []string{"", "-wal", "-shm"} {
		must.OK(t, os.WriteFile(filepath.Join(two, unfinished+tail), []byte("half a page"), 0o600))
	}
	second := lesson(t, data, two)
	if first.Setting != second.Setting || fmt.Sprint(catalogue(t, one)) != fmt.Sprint(catalogue(t, two)) {
		t.Errorf("%+v, then %+v", first, second)
	}
	if again := lesson(t, data, one); !again.Already || again.Setting != first.Setting || again.Copied != 0 {
		t.Errorf("again: %+v", again)
	}
	for _, c := range []struct {
		into, flag, says string
	}{
		{one, "--components=8", "profiles of the model " + first.Model},
		{data, "--components=8", "is the folder that is read"},
		{two, "--share=-1", "--share -1"},
		{filepath.Join(dir, "three"), "--memory-limit=64M", "WORKER_MEMORY_LIMIT"},
		{filepath.Join(dir, "three"), "--components=16384", "--components 16384"},
	} {
		code, _, errs := lite(t, "", "products", "learn", small, "--data", data, "--into", c.into, c.flag)
		if code == 0 || !strings.Contains(errs, c.says) {
			t.Errorf("%s: code %d, %s; want %q", c.flag, code, errs, c.says)
		}
	}
	next := lesson(t, one, filepath.Join(dir, "four"), fmt.Sprintf("--dimensions=%d", first.Dimensions), "--learned", first.Setting)
	if next.Model != first.Model {
		t.Errorf("learned from a learned catalogue: %+v", next)
	}
}
