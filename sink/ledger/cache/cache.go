// Package cache keeps states, preferences and responses of users in memory, in front of
// another ledger. An entry is what the ledger had of a user under one version, so it is never
// wrong, only old: a change that is made of an old one conflicts, and its user is read
// from the ledger then. Responses have no version: they are as old as the last reading, at
// most so many changes as an entry is kept for.
package cache

import (
	"context"
	"errors"
	"sync/atomic"

	"keyfold/engine"
	"keyfold/engine/lru"
	"keyfold/engine/metric"
	"keyfold/engine/notify"
)

// Ledger answers [notify.Ask]s that admit an earlier state from memory; all else is of
// the ledger behind it. It may be used from any goroutine.
type Ledger struct {
	notify.Ledger
	users        *lru.Cache[string, *entry]
	hits, misses atomic.Int64 // of asks that admit an earlier state
}

// entry is a user's. It is never changed, and shares nothing but preferences and responses,
// which are never changed either.
type entry struct {
	state       []byte // binary form; nil: the user has none
	version     int64
	preferences notify.Preferences
	responses   *notify.Responses
	changes     int // that were written since the user was read
	absent      int // above 0: nothing is kept, for as many loads
}

// maxChanges is how many changes an entry is kept for: then the user is read again, because
// a report changes responses and no version.
const maxChanges = 64

// absentLoads is how many loads of a user go to the ledger after a conflict: another
// worker decides for the user too, and each entry would conflict.
const absentLoads = 64

// New returns a cache in front of a ledger. Its entries take at most limit bytes.
func New(behind notify.Ledger, limit int64) *Ledger {
	return &Ledger{Ledger: behind, users: lru.New(limit, sizeOf)}
}

// sizeOf estimates what an entry keeps in memory, in bytes.
func sizeOf(user string, e *entry) int64 {
	const fixed = 400 // the entry, its place in the list and in the map
	p := &e.preferences
	const (
		topic     = 160 // an entry of a map, with its name
		attribute = 120 // a value, with its path
		responses = 400
	)
	size := fixed
	if e.responses != nil {
		size += responses
	}
	return int64(size + len(user) + cap(e.state) + 16*cap(p.Quiet) + cap(p.Muted) + cap(p.Channels) + 8*cap(p.Digests) +
		topic*len(p.Topics) + p.Attributes.Len() + attribute*len(p.Attributes.Values))
}

// Load implements [notify.Ledger]. It makes no call where every user is cached.
func (l *Ledger) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	all := make([]notify.Standing, len(asks))
	var (
		missing []notify.Ask
		places  []int
	)
	for i := range asks {
		if !l.answer(&asks[i], &all[i]) {
			missing, places = append(missing, asks[i]), append(places, i)
		}
	}
	if len(missing) == 0 && len(asks) > 0 {
		return all, ctx.Err()
	}
	read, err := l.Ledger.Load(ctx, missing)
	unreadable, some := errors.AsType[*notify.UnreadableError](err)
	if err != nil && !some {
		return nil, err
	}
	for i := range read {
		all[places[i]] = read[i]
		if user := missing[i].User; !some || unreadable.Users[user] == nil {
			l.loaded(user, &read[i])
		}
	}
	return all, err
}

// answer answers an ask from memory, if it admits that and the user is there.
func (l *Ledger) answer(ask *notify.Ask, s *notify.Standing) bool {
	if !ask.Stale || ask.Deferrals {
		return false
	}
	e, ok := l.users.Get(ask.User)
	if !ok || e.absent > 0 {
		l.misses.Add(1)
		return false
	}
	l.hits.Add(1)
	s.Version, s.Preferences, s.Responses = e.version, e.preferences, e.responses
	s.Known = make([]notify.Known, len(ask.Events))
	if e.state != nil {
		s.State, _ = notify.ReadState(e.state) // [State.Append] has written it
	}
	return true
}

// loaded keeps what was read of a user.
func (l *Ledger) loaded(user string, s *notify.Standing) {
	e := &entry{version: s.Version, preferences: s.Preferences, responses: s.Responses}
	if kept, ok := l.users.Get(user); ok && kept.absent > 1 {
		e = &entry{absent: kept.absent - 1}
	} else if s.State != nil {
		e.state = encode(s.State)
	}
	l.put(user, e)
}

// put keeps an entry in place of an older one.
func (l *Ledger) put(user string, e *entry) {
	l.users.PutUnless(user, e, func(kept *entry) bool { return kept.absent == 0 && kept.version > e.version && e.absent == 0 })
}

func encode(s *notify.State) []byte {
	var space [4096]byte
	b := s.Append(space[:0])
	return append(make([]byte, 0, len(b)), b...)
}

// Commit implements [notify.Ledger]. What was written is cached under its new version.
func (l *Ledger) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	errs := l.Ledger.Commit(ctx, changes, marks)
	for i := range changes {
		switch user := changes[i].User; {
		case errs[i] == nil:
			l.written(&changes[i])
		case errors.Is(errs[i], engine.ErrConflict):
			l.users.Put(user, &entry{absent: absentLoads})
		default:
			l.users.Remove(user)
		}
	}
	return errs
}

// written keeps the state of a change. The preferences are those of the version before
// it: one that changes them raises the version, and the change would have conflicted.
func (l *Ledger) written(c *notify.Change) {
	before, ok := l.users.Get(c.User)
	switch {
	case !ok || before.absent > 0 || len(c.Decided) == 0:
	case before.version != c.Version, before.changes+1 >= maxChanges:
		l.users.Remove(c.User)
	default:
		l.put(c.User, &entry{
			state: encode(c.State), version: c.Version + int64(len(c.Decided)), preferences: before.preferences,
			responses: before.responses, changes: before.changes + 1,
		})
	}
}

// Forget implements [notify.Ledger].
func (l *Ledger) Forget(ctx context.Context, user string, at engine.Millis) error {
	defer l.users.Remove(user)
	return l.Ledger.Forget(ctx, user, at)
}

// Usage returns the number of users that are cached and what they take up in bytes.
func (l *Ledger) Usage() (users int, bytes int64) { return l.users.Usage() }

// Register adds the series to set.
func (l *Ledger) Register(set *metric.Set) {
	set.Counter("keyfold_notify_cache_hits_total", "Users whose state was cached when their events were decided.", l.hits.Load)
	set.Counter("keyfold_notify_cache_misses_total", "Users whose state was read from the ledger for it.", l.misses.Load)
	set.Gauge("keyfold_notify_cache_users", "Users whose state is cached.", func() float64 {
		users, _ := l.Usage()
		return float64(users)
	})
	set.Gauge("keyfold_notify_cache_bytes", "Bytes that cached states take up.", func() float64 {
		_, bytes := l.Usage()
		return float64(bytes)
	})
}
