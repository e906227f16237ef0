package sinktest

import (
	"context"
	"errors"
	"math"
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Positions is the suite of a store's positions of streams. The store has none before.
func Positions(t *testing.T, s profile.Positions) {
	ctx := context.Background()
	expect := func(stream string, want profile.Position) {
		t.Helper()
		if got, err := s.LoadPosition(ctx, stream); err != nil || got != want {
			t.Fatalf("the position of %s is %+v, %v; want %+v", stream, got, err, want)
		}
	}
	save := func(stream string, p profile.Position, want error) {
		t.Helper()
		if err := s.SavePosition(ctx, stream, p); !errors.Is(err, want) {
			t.Fatalf("saved %+v: %v, want %v", p, err, want)
		}
	}
	expect("a", profile.Position{})
	first := profile.Position{Offset: 17, Chunk: profile.Fingerprint{First: 11, Timestamp: 1_700_000_000_123, CRC: math.MaxUint32}}
	save("a", first, nil)
	expect("a", first)
	expect("b", profile.Position{})
	lower := profile.Position{Offset: 3}
	save("a", lower, nil)
	expect("a", lower)

	back := profile.Position{Offset: 1, Chunk: profile.Fingerprint{First: 1, Timestamp: 5, CRC: 7}}
	if err := s.Rewind(ctx, "a", back); err != nil {
		t.Fatal(err)
	}
	back.Rewinds = 1
	expect("a", back)
	save("a", first, engine.ErrConflict) // of a reader that has not seen it
	expect("a", back)
	first.Rewinds = 1
	save("a", first, nil)
	expect("a", first)

	if err := s.Rewind(ctx, "new", profile.Position{}); err != nil {
		t.Fatal(err)
	}
	expect("new", profile.Position{Rewinds: 1})
	save("new", lower, engine.ErrConflict)

	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.LoadPosition(ended, "a"); err == nil {
		t.Error("read after the end of its context")
	}
	if err := s.SavePosition(ended, "a", first); err == nil {
		t.Error("saved after the end of its context")
	}
}
