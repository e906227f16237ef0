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
	rewind := func(stream string, seen, to profile.Position, want error) {
		t.Helper()
		if err := s.Rewind(ctx, stream, seen, to); !errors.Is(err, want) {
			t.Fatalf("set back to %+v: %v, want %v", to, err, want)
		}
	}
	rewind("a", profile.Position{Rewinds: 1}, back, engine.ErrConflict)
	rewind("a", lower, back, nil)
	rewind("a", lower, first, engine.ErrConflict) // another has set it back meanwhile
	back.Rewinds = 1
	expect("a", back)
	save("a", first, engine.ErrConflict) // of a reader that has not seen it
	expect("a", back)
	first.Rewinds = 1
	save("a", first, nil)
	expect("a", first)

	rewind("new", profile.Position{}, profile.Position{}, nil)
	expect("new", profile.Position{Rewinds: 1})
	save("new", lower, engine.ErrConflict)

	anew := profile.Position{Offset: 900, Epoch: profile.Epoch{Number: math.MaxUint16, From: 900}}
	rewind("new", profile.Position{Rewinds: 1}, anew, nil)
	anew.Rewinds = 2
	expect("new", anew)
	anew.Offset, anew.Chunk = 1000, first.Chunk
	save("new", anew, nil)
	expect("new", anew)

	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.LoadPosition(ended, "a"); err == nil {
		t.Error("read after the end of its context")
	}
	if err := s.SavePosition(ended, "a", first); err == nil {
		t.Error("saved after the end of its context")
	}
}
