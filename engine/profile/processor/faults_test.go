package processor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// damage makes the documents of some users unreadable.
func (f *fixture) damage(users ...int32) {
	broken := map[int32]bool{}
	for _, user := range users {
		broken[user] = true
	}
	f.ports.load = func(ctx context.Context, asked []int32) ([]*profile.Profile, error) {
		profiles, err := f.store.Load(ctx, asked)
		unreadable := map[int32]error{}
		for i, user := range asked {
			if broken[user] {
				profiles[i] = nil
				unreadable[user] = engine.ConfigurationError("store_corrupt", fmt.Errorf("the profile of user %d has no version: set it to 1", user))
			}
		}
		if len(unreadable) > 0 {
			err = &engine.UnreadableError{Users: unreadable}
		}
		return profiles, err
	}
}

// One user's document that cannot be used stops no other user: its events are
// parked with the cure in the log, and fold once it is cured.
//
// Promise(event/unusable-profile)
func TestUnusableProfileIsItsUsersOwn(t *testing.T) {
	var log bytes.Buffer
	f := newFixture(t)
	f.await = func(ctx context.Context) (bool, error) { return false, ctx.Err() }
	f.log = slog.New(slog.NewTextHandler(&log, nil))
	f.Engine = f.engine(t)
	f.damage(13)
	for round := range 5 {
		var batches []profile.Batch
		var fine []*letter
		sick := view(13, fmt.Sprint("sick ", round), 1, 1)
		for user := int32(1); user <= 40; user++ {
			l := sick
			if user != 13 {
				l = view(user, fmt.Sprint(user, " ", round), 1, 1)
				fine = append(fine, l)
			}
			batches = append(batches, batch(l))
		}
		f.apply(batches...)
		for _, l := range fine {
			l.want(t, engine.Folded)
		}
		sick.want(t, engine.Park)
		again := view(13, fmt.Sprint("alone ", round), 1, 1)
		f.apply(batch(again)) // as often as it comes back, it is one user
		again.want(t, engine.Park)
	}
	if len(f.faults) != 0 {
		t.Errorf("one user's document stops the worker: %v", f.faults)
	}
	if text := log.String(); !strings.Contains(text, "user_id=13") || !strings.Contains(text, "has no version: set it to 1") {
		t.Errorf("the cure is not in the log: %s", text)
	}
	f.ports.load = nil
	cured := view(13, "cured", 1, 1)
	f.apply(batch(cured))
	cured.want(t, engine.Folded)
}

// Profiles of other settings, user after user, are a fault of the settings: the
// worker stops and nothing is parked for a day.
//
// Promise(event/configuration)
func TestUnusableProfilesOfMostUsersAreAFault(t *testing.T) {
	f := newFixture(t)
	for user := int32(1); user <= 6; user++ {
		f.apply(batch(view(user, fmt.Sprint(user), 1, 1)))
	}
	f.await = func(ctx context.Context) (bool, error) { return false, ctx.Err() }
	f.config.Model = "another"
	f.Engine = f.engine(t)
	var last *letter
	for user := int32(1); user <= 3; user++ { // one flush each, as at night
		last = view(user, fmt.Sprint("b", user), 1, 2)
		f.apply(batch(last))
	}
	last.want(t, engine.Unsettled)
	if len(f.faults) == 0 || engine.ReasonOf(f.faults[0]) != "other_model" {
		t.Errorf("faults: %v", f.faults)
	}
	together := []*letter{view(4, "c", 1, 2), view(5, "d", 1, 2), view(6, "e", 1, 2)}
	f.apply(batch(together[0]), batch(together[1]), batch(together[2]))
	for _, l := range together {
		l.want(t, engine.Unsettled)
	}
}

// A store that works, and fails the writes of many users though it is not known to
// be away (one of its shards is lost), uses no attempt of theirs.
//
// Promise(away/many-users): Failures of many users use no attempt and park their events; one user's
// own failure uses one.
func TestFailuresOfManyUsersUseNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.await = func(ctx context.Context) (bool, error) { return false, ctx.Err() }
		f.Engine = f.engine(t)
		f.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
			answers := make([]error, len(profiles))
			for i, p := range profiles {
				if answers[i] = fmt.Errorf("%w: no primary of shard 2", engine.ErrOwn); p.UserID%2 == 1 {
					answers[i] = f.store.Swap(ctx, []*profile.Profile{p})[0]
				}
			}
			return answers
		}
		flush := func(first int32, want engine.Outcome) {
			t.Helper()
			var batches []profile.Batch
			var lost []*letter
			for user := first; user < first+10; user++ {
				l := view(user, fmt.Sprint(user, engine.Now()), 1, engine.Now())
				if batches = append(batches, batch(l)); user%2 == 0 {
					lost = append(lost, l)
				}
			}
			f.Apply(t.Context(), batches)
			for _, l := range lost {
				l.want(t, want)
			}
		}
		flush(0, engine.Park)
		flush(10, engine.Park)

		f.ports.swap = nil
		flush(0, engine.Folded)
		flush(10, engine.Folded)
		f.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
			answers := f.store.Swap(ctx, profiles)
			for i, p := range profiles {
				if p.UserID == 2 {
					answers[i] = fmt.Errorf("%w: type mismatch", engine.ErrOwn)
				}
			}
			return answers
		}
		sick := view(2, "sick", 1, engine.Now())
		f.ports.load = func(_ context.Context, users []int32) ([]*profile.Profile, error) {
			return make([]*profile.Profile, len(users)), nil
		}
		f.Apply(t.Context(), []profile.Batch{batch(sick)})
		sick.want(t, engine.Retry)
	})
}

// A batch that the store rejects is halved after the others of its flush are done,
// also after one that met a conflict. A few writes find the event.
//
// Promise(event/rejected-profile)
func TestRejectedBatchGoesLast(t *testing.T) {
	f := newFixture(t)
	var order []int32
	bad, conflict := profile.DigestOf("300").ID(), true
	f.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
		errs := make([]error, len(profiles))
		for i, p := range profiles {
			switch {
			case p.UserID == 2 && conflict:
				conflict, errs[i] = false, engine.ErrConflict
				continue
			case p.UserID == 1:
				for _, id := range p.Applied.IDs {
					if id == bad {
						errs[i] = engine.PermanentError("document_rejected", errors.New("failed validation"))
					}
				}
			}
			if order = append(order, p.UserID); errs[i] == nil {
				errs[i] = f.store.Swap(ctx, []*profile.Profile{p})[0]
			}
		}
		return errs
	}
	var all []*letter
	for i := range 500 {
		all = append(all, view(1, fmt.Sprint(i), 1, engine.Millis(i+1)))
	}
	other := view(2, "other", 1, 1)
	f.apply(batch(all...), batch(other))
	other.want(t, engine.Folded)
	for i, l := range all {
		if want := engine.Folded; i != 300 {
			l.want(t, want)
		}
	}
	if v := all[300].want(t, engine.Dead); v.Reason != "document_rejected" {
		t.Errorf("reason %q", v.Reason)
	}
	if len(order) > 30 || order[1] != 2 {
		t.Errorf("%d writes in this order of users: %v", len(order), order)
	}
	if p := f.profile(t, 1); p.EventCount != 499 {
		t.Errorf("%d events, want 499", p.EventCount)
	}
}

// A small part of the store that is known to be away (one shard of twelve) uses no attempt of its
// users, however many others are written.
//
// Promise(away/lost-shard): Events of users on a lost MongoDB shard are parked with no attempt used,
// however many others are written.
func TestALostShardUsesNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.await = func(ctx context.Context) (bool, error) { return false, ctx.Err() }
		f.Engine = f.engine(t)
		lost := func(user int32) bool { return user%12 == 0 }
		flush := func(round int, want engine.Outcome) {
			t.Helper()
			var batches []profile.Batch
			letters := map[int32]*letter{}
			for user := int32(1); user <= 24; user++ {
				letters[user] = view(user, fmt.Sprint(user, " ", round), 1, engine.Now())
				batches = append(batches, batch(letters[user]))
			}
			f.Apply(t.Context(), batches)
			for user, l := range letters {
				if lost(user) {
					l.want(t, want)
				} else {
					l.want(t, engine.Folded)
				}
			}
		}
		flush(0, engine.Folded) // the profiles are cached now
		f.ports.load = func(ctx context.Context, asked []int32) ([]*profile.Profile, error) {
			if slices.ContainsFunc(asked, lost) { // a mongos answers for all or for none
				return nil, fmt.Errorf("shard 2 is %w", engine.ErrAway)
			}
			return f.store.Load(ctx, asked)
		}
		f.ports.swap = func(ctx context.Context, profiles []*profile.Profile) []error {
			answers := make([]error, len(profiles))
			for i, p := range profiles {
				if answers[i] = fmt.Errorf("%w: shard 2 is %w", engine.ErrOwn, engine.ErrAway); !lost(p.UserID) {
					answers[i] = f.store.Swap(ctx, []*profile.Profile{p})[0]
				}
			}
			return answers
		}
		for round := range 6 {
			flush(round+1, engine.Park)
		}
		f.ports.load, f.ports.swap = nil, nil
		flush(9, engine.Folded)
	})
}
