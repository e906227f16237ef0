package ledger

import (
	"context"
	"errors"
	"fmt"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Reasons of the permanent errors of a merge.
const (
	ReasonSameUser = "same_user"
	ReasonIsAlias  = "is_alias"
)

// MergedError says that an id is an alias: what is meant for it is meant for Into. Nothing was
// written.
type MergedError struct{ User, Into string }

// Error names the cure.
func (e *MergedError) Error() string {
	return fmt.Sprintf("user %q is an alias of %q since a merge: name that one", e.User, e.Into)
}

// Merger is a ledger in which two ids can become one person's.
type Merger interface {
	Reader
	// OldestDay returns from when on records are kept; 0: all are.
	OldestDay(ctx context.Context) (engine.Millis, error)
	// Merge writes a merge. It returns how many decisions became those of [notify.Merge.Into],
	// and [engine.ErrConflict] where one of the users has another version.
	Merge(ctx context.Context, m *notify.Merge) (decisions int, err error)
	// Aliases returns the ids that stand for a user, in the order of their merges.
	Aliases(ctx context.Context, user string) ([]notify.Alias, error)
}

// Loader reads what is stored of users.
type Loader interface {
	Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error)
}

// Persons returns the users that ids stand for: of an alias the other one, of others themselves.
func Persons(ctx context.Context, l Loader, ids ...string) (map[string]string, error) {
	persons := make(map[string]string, len(ids))
	err := statesOf(ctx, l, ids, func(id string, s *notify.State) {
		if persons[id] = id; s != nil && s.MergedInto != "" {
			persons[id] = s.MergedInto
		}
	})
	return persons, err
}

// ErasedOf returns which of some ids are erased users'.
func ErasedOf(ctx context.Context, l Loader, ids ...string) (map[string]bool, error) {
	erased := map[string]bool{}
	err := statesOf(ctx, l, ids, func(id string, s *notify.State) { erased[id] = s != nil && s.Erased })
	return erased, err
}

// statesOf reads the state of each id, nil where it has none. One that does not read is as none.
func statesOf(ctx context.Context, l Loader, ids []string, each func(id string, s *notify.State)) error {
	asks := make([]notify.Ask, len(ids))
	for i, id := range ids {
		asks[i].User = id
	}
	standings, err := l.Load(ctx, asks)
	if _, damaged := errors.AsType[*notify.UnreadableError](err); err != nil && !damaged {
		return err
	}
	for i, id := range ids {
		each(id, standings[i].State)
	}
	return nil
}

// Person returns the user that an id stands for.
func Person(ctx context.Context, l Loader, id string) (string, error) {
	persons, err := Persons(ctx, l, id)
	return persons[id], err
}

// Merged is what [MergeUsers] has done.
type Merged struct {
	Alias     string `json:"alias"`
	Into      string `json:"user_id"`
	Already   bool   `json:"already"`   // they were one person's before
	Decisions int    `json:"decisions"` // that the alias had
	Waiting   int    `json:"waiting"`   // notifications of the alias that wait
}

// mergeTries bounds how often a merge is made anew because decisions came between.
const mergeTries = 50

// MergeUsers makes alias an id of the person who has the id into. The state, preferences and
// waiting notifications of both are that person's then. Where into is an alias itself, it is merged into
// the user that into stands for. There is no way back.
func MergeUsers(ctx context.Context, l Merger, alias, into string, at engine.Millis) (done Merged, err error) {
	kept, err := l.OldestDay(ctx)
	if err != nil {
		return done, err
	}
	for try := 0; ; try++ {
		done, err = mergeOnce(ctx, l, alias, into, at, kept)
		if !errors.Is(err, engine.ErrConflict) || try == mergeTries {
			return done, err
		}
	}
}

// pair is what is stored of two users who are to be one.
type pair struct {
	Merged
	from, to notify.Standing
}

// look reads two users. The error says why they are not merged.
func look(ctx context.Context, l Loader, alias, into string) (p pair, err error) {
	standings, err := l.Load(ctx, []notify.Ask{{User: alias, Deferrals: true}, {User: into}})
	if err != nil {
		return p, err
	}
	p.from, p.to = standings[0], standings[1]
	for p.to.State != nil && p.to.State.MergedInto != "" { // it may be merged between two readings
		into = p.to.State.MergedInto
		if standings, err = l.Load(ctx, []notify.Ask{{User: into}}); err != nil {
			return p, err
		}
		p.to = standings[0]
	}
	p.Merged = Merged{Alias: alias, Into: into, Waiting: len(p.from.Deferred)}
	p.Already = p.from.State != nil && p.from.State.MergedInto == into
	return p, mergeable(alias, into, p.from.State, p.to.State)
}

// LookAtMerge returns what [MergeUsers] would do, but for the number of decisions, or its error.
func LookAtMerge(ctx context.Context, l Loader, alias, into string) (Merged, error) {
	p, err := look(ctx, l, alias, into)
	return p.Merged, err
}

func mergeOnce(ctx context.Context, l Merger, alias, into string, at, kept engine.Millis) (done Merged, err error) {
	p, err := look(ctx, l, alias, into)
	done = p.Merged
	if err != nil || p.Already {
		return done, err
	}
	from, to := &p.from, &p.to
	m := &notify.Merge{
		Alias: alias, Into: p.Into, At: at, AliasVersion: from.Version, IntoVersion: to.Version,
		Preferences: to.Preferences.Join(&from.Preferences),
	}
	if m.State, err = mergedState(ctx, l, m, from.State, to.State, kept); err != nil {
		return done, err
	}
	done.Decisions, err = l.Merge(ctx, m)
	return done, err
}

// mergeable returns why two users are not merged, or nil.
func mergeable(alias, into string, from, to *notify.State) error {
	for user, s := range map[string]*notify.State{alias: from, into: to} {
		if s != nil && s.Erased {
			return engine.PermanentError(ReasonUserErased, fmt.Errorf("user %q is erased: an erased user is not merged", user))
		}
	}
	switch {
	case alias == into:
		return engine.PermanentError(ReasonSameUser, fmt.Errorf("%q is the same person already: name two ids", alias))
	case from != nil && from.MergedInto != "" && from.MergedInto != into:
		return engine.PermanentError(ReasonIsAlias, fmt.Errorf("user %q is an alias of %q already: merge that one into %q", alias, from.MergedInto, into))
	}
	return nil
}

// mergedState returns the state of both users; nil: neither has decisions.
func mergedState(ctx context.Context, l Reader, m *notify.Merge, from, to *notify.State, kept engine.Millis) (*notify.State, error) {
	switch {
	case from == nil && to == nil:
		return nil, nil
	case from == nil:
		from = &notify.State{}
	case to == nil:
		to = &notify.State{}
	}
	since := max(kept, max(from.DecidedAt, to.DecidedAt)-notify.MaxHorizon, 0)
	ofAlias, err := recordsSince(ctx, l, m.Alias, since, m.AliasVersion)
	if err != nil {
		return nil, err
	}
	ofInto, err := recordsSince(ctx, l, m.Into, since, m.IntoVersion)
	if err != nil {
		return nil, err
	}
	return notify.MergeStates(from, to, ofAlias, ofInto, since), nil
}

// recordsSince reads the records of a user up to a version.
func recordsSince(ctx context.Context, l Reader, user string, since engine.Millis, version int64) (all []notify.Record, err error) {
	for d, err := range l.Records(ctx, Filter{User: user, From: since, Oldest: true}) {
		if err != nil {
			return nil, err
		}
		if d.Record.Seq <= version {
			all = append(all, d.Record)
		}
	}
	return all, nil
}
