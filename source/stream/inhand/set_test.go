package inhand_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"keyfold/engine/profile"
	"keyfold/source/stream/inhand"
)

const stream = profile.StreamID(1 << 8)

// What a set says is what a list says that is gone through.
func TestSetEqualsAList(t *testing.T) {
	type entry struct {
		offset uint64
		user   int32
	}
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Uint64Range(0, 10).Draw(t, "from")
		set, next := inhand.New(stream, from), from
		var list []entry
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(list) == 0 || rapid.Bool().Draw(t, "deliver") {
				e := entry{next + rapid.Uint64Range(0, 3).Draw(t, "gap"), int32(rapid.IntRange(1, 3).Draw(t, "user"))}
				set.Deliver(e.offset, e.user, int(e.user))
				list, next = append(list, e), e.offset+1
			} else {
				i := rapid.IntRange(0, len(list)-1).Draw(t, "settled")
				set.Settle(list[i].offset)
				set.Settle(list[i].offset) // a second time is no other event's
				list = slices.Delete(list, i, i+1)
			}
			position, bytes := next, int64(0)
			if len(list) > 0 {
				position = list[0].offset
			}
			byUser := map[int32][]profile.Place{}
			for _, e := range list {
				bytes += int64(e.user)
				byUser[e.user] = append(byUser[e.user], profile.Place{Stream: stream, Offset: e.offset})
			}
			if got := set.Position(); got != position {
				t.Fatalf("position %d, want %d", got, position)
			}
			if n, b := set.Held(); n != len(list) || b != bytes {
				t.Fatalf("%d events of %d bytes held, want %d of %d", n, b, len(list), bytes)
			}
			for user := int32(1); user <= 3; user++ {
				if got := set.InHand(user); !slices.Equal(got, byUser[user]) {
					t.Fatalf("user %d has %v in hand, want %v", user, got, byUser[user])
				}
			}
		}
	})
}

// A wait for copies ends with the user's last one, with the session, or with its context, and
// not with another user's.
func TestAwaitCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := inhand.New(stream, 0)
		for o := range uint64(4) {
			set.Deliver(o, int32(o%2), 0)
			set.Copy(o, int32(o%2))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := [3]bool{}
		wait := func(i int, ctx context.Context, user int32) {
			go func() { set.AwaitCopies(ctx, user); ended[i] = true }()
		}
		wait(0, t.Context(), 0)
		wait(1, t.Context(), 1)
		wait(2, ctx, 1)
		for step, want := range [][3]bool{{}, {}, {true}, {true, false, true}, {true, true, true}} {
			switch step {
			case 1:
				set.Settle(0)
			case 2:
				set.Settle(2)
			case 3:
				cancel()
			case 4:
				set.End()
			}
			if synctest.Wait(); ended != want {
				t.Fatalf("step %d: waits ended %v, want %v", step, ended, want)
			}
		}
		if bytes := set.Deliver(9, 1, 250); bytes != 0 {
			t.Errorf("%d bytes are counted after the end: no session gives them back", bytes)
		}
		if got := set.InHand(1); len(got) != 3 || set.Position() != 1 {
			t.Fatalf("after the end %v is in hand, position %d", got, set.Position())
		}
	})
}

func BenchmarkSet(b *testing.B) {
	const held = 100_000
	set := inhand.New(stream, 0)
	for o := range uint64(held) {
		set.Deliver(o, int32(o%20_000), 250)
	}
	b.ReportAllocs()
	o := uint64(held)
	for b.Loop() {
		set.Deliver(o, int32(o%20_000), 250)
		set.Settle(o - held)
		o++
	}
}
