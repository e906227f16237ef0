package failed

import (
	"slices"
	"strings"
	"time"
)

// Filter says which failures are meant: those that meet all that is given.
type Filter struct {
	Reason, Type  string
	User          *string
	Error         string    // part of the reason or of an error's text; case does not count
	After, Before time.Time // of the last failure: at or after, and before
}

// Matches reports whether a letter meets the filter.
func (f *Filter) Matches(l *Letter) bool {
	return (f.Reason == "" || l.Reason == f.Reason) &&
		(f.Type == "" || l.Kind() == f.Type) &&
		(f.User == nil || l.User == *f.User) &&
		(f.After.IsZero() || !l.LastFailure.IsZero() && !l.LastFailure.Before(f.After)) &&
		(f.Before.IsZero() || !l.LastFailure.IsZero() && l.LastFailure.Before(f.Before)) &&
		(f.Error == "" || l.mentions(strings.ToLower(f.Error)))
}

func (l *Letter) mentions(lower string) bool {
	holds := func(s string) bool { return strings.Contains(strings.ToLower(s), lower) }
	return holds(l.Reason) || slices.ContainsFunc(l.Errors, holds) || holds(l.Fault)
}
