package ledger

import (
	"context"
	"iter"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Reader reads what is stored of users.
type Reader interface {
	Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error)
	Records(ctx context.Context, f Filter) iter.Seq2[notify.Decided, error]
}

// Verified is what [Verify] has found.
type Verified struct {
	Version     int64 // of the user; 0: nothing is stored of it
	Erased      bool
	Records     int           // that were folded
	Since       engine.Millis // the least decided_at of a record that counts; 0: all
	Differences []string      // none: records and state agree
}

// Verify folds a user's records and compares them with the stored state. Records of
// before kept are no longer stored. Decisions may be made meanwhile: those that follow the
// state that was read do not count. Of an erased user it looks for what is left.
func Verify(ctx context.Context, l Reader, user string, kept engine.Millis) (v Verified, err error) {
	standings, err := l.Load(ctx, []notify.Ask{{User: user, Deferrals: true}})
	if err != nil {
		return v, err
	}
	s := &standings[0]
	v.Version, v.Erased = s.Version, s.State != nil && s.State.Erased
	stored := s.State
	if stored == nil {
		stored = &notify.State{}
	}
	filter := Filter{User: user, Oldest: true}
	if !v.Erased {
		v.Since = max(kept, stored.DecidedAt-notify.MaxHorizon, 0)
		filter.From = v.Since
	}
	var folded notify.State
	for d, err := range l.Records(ctx, filter) {
		if err != nil {
			return v, err
		}
		if v.Erased || d.Record.Seq <= s.Version {
			folded.Fold(&d.Record)
			v.Records++
		}
	}
	if !v.Erased {
		v.Differences = stored.Differences(&folded, v.Since)
		return v, nil
	}
	if v.Records > 0 || len(s.Deferred) > 0 {
		v.Differences = []string{"the user is erased, and decisions or deferrals of the user are left: erase the user again"}
	}
	return v, nil
}
