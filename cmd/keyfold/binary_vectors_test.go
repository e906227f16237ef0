package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
)

// Workers of both forms fold into one collection, and `user convert` rewrites what they leave.
//
// Promise(mongodb/format)
func TestBinaryVectors(t *testing.T) {
	s := newStack(t)
	at := time.Now().Add(-time.Hour)
	store := s.open(t)
	folded := func(user int32, events int64) {
		t.Helper()
		eventually(t, "the event is folded", func() error {
			if p := allProfiles(t, store)[user]; p == nil || p.EventCount != events {
				return fmt.Errorf("user %d has %+v", user, p)
			}
			return nil
		})
	}
	s.work(t, quick).ready()
	s.publish(t, event(1, profile.ProductView, 1, at, "a"), event(2, profile.ProductView, 2, at, "b"))
	folded(1, 1)
	folded(2, 1)
	s.work(t, quick, "--embedding-format=binary").ready()
	before := allProfiles(t, store)
	convert := func(format string) string {
		t.Helper()
		code, out, errs := s.run(t, "", "user", "convert", "--embedding-format="+format, "-o", "json")
		if code != 0 {
			t.Fatalf("code %d: %s", code, errs)
		}
		return strings.TrimSpace(out)
	}
	if out := convert("binary"); out != `{"profiles_converted":2,"format":"binary"}` {
		t.Error(out)
	}
	after := allProfiles(t, store)
	if after[1].Version != before[1].Version || after[1].Vector[0] != before[1].Vector[0] {
		t.Errorf("it was %+v and is %+v", before[1], after[1])
	}
	s.publish(t, event(1, profile.ProductView, 1, at, "c")) // either worker takes it
	folded(1, 2)
	convert("array")
	if out := convert("array"); out != `{"profiles_converted":0,"format":"array"}` {
		t.Error(out)
	}
	if code, _, errs := s.run(t, "", "user", "convert", "--embedding-format=base64"); code == 0 || !strings.Contains(errs, "EMBEDDING_FORMAT") {
		t.Errorf("code %d, %s", code, errs)
	}
}
