package memory

import (
	"context"
	"maps"
	"sync"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// Ledger implements [notify.Ledger]. Records, events and preferences that it was
// given must not be changed afterwards, nor those that it returns; states are copied.
type Ledger struct {
	mu        sync.Mutex
	users     map[string]*user              // by [ledger.Name]; this and all below: guarded by mu
	keys      map[uuid.UUID]*notify.Known   // by event_id
	decisions map[uuid.UUID]*notify.Decided // by decision_id
	waiting   map[uuid.UUID]*deferral       // by event_id
	leases    map[string]lease              // by name
	aliases   map[string][]notify.Alias     // by the user that they stand for, in the order of their merges
}

type user struct {
	version   int64
	state     *notify.State // nil: there are preferences only
	own       notify.Preferences
	changes   int64             // of the preferences: their version
	responses *notify.Responses // nil: none
	records   []*notify.Decided // in the order of Seq
}

// deferral is an event that waits.
type deferral struct {
	notify.Due
	user   string
	nextAt engine.Millis // DueAt, or the end of the lease
}

var (
	_ notify.Ledger  = (*Ledger)(nil)
	_ notify.Reports = (*Ledger)(nil)
)

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		users: map[string]*user{}, keys: map[uuid.UUID]*notify.Known{}, decisions: map[uuid.UUID]*notify.Decided{},
		waiting: map[uuid.UUID]*deferral{}, leases: map[string]lease{},
		aliases: map[string][]notify.Alias{},
	}
}

// key returns the key of an event, the zero one where it is new. l.mu is held, as
// in every method that is not exported.
func (l *Ledger) key(event uuid.UUID) notify.Known {
	if k := l.keys[event]; k != nil {
		return *k
	}
	return notify.Known{}
}

// user returns what is kept of a user; a new entry where there is nothing.
func (l *Ledger) user(id string) *user {
	u := l.users[id]
	if u == nil {
		u = &user{}
		l.users[id] = u
	}
	return u
}

// Load implements [notify.Ledger].
func (l *Ledger) Load(ctx context.Context, asks []notify.Ask) ([]notify.Standing, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]notify.Standing, len(asks))
	for i := range asks {
		all[i] = l.standing(&asks[i])
	}
	return all, nil
}

func (l *Ledger) standing(ask *notify.Ask) notify.Standing {
	s := notify.Standing{Known: make([]notify.Known, len(ask.Events))}
	u := l.users[ask.User]
	if u == nil {
		u = l.users[notify.Tombstone(ask.User)]
	}
	if u != nil {
		s.State, s.Version, s.Preferences, s.Responses = clone(u.state), u.version, u.own, u.responses
	}
	for i, event := range ask.Events {
		s.Known[i] = l.key(event)
	}
	if ask.Deferrals {
		s.Deferred = l.undecided(ask.User)
	}
	for _, event := range ask.Reports {
		reported := notify.Reported(0)
		if d := l.decisions[l.key(event).DecisionID]; d != nil {
			reported = d.Delivery.Reported()
		}
		s.Reported = append(s.Reported, reported)
	}
	return s
}

// undecided returns the user's deferrals whose turn is not decided: the others wait
// for the mark of their dispatch.
func (l *Ledger) undecided(user string) []notify.Due {
	var all []*deferral
	for event, d := range l.waiting {
		if k := l.key(event); d.user == user && (k.Outcome == 0 || k.Turn < d.Turn.Number) {
			all = append(all, d)
		}
	}
	return sorted(all)
}

// Commit implements [notify.Ledger].
func (l *Ledger) Commit(ctx context.Context, changes []notify.Change, marks []notify.DispatchMark) []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	answers := make([]error, len(changes))
	ended := ctx.Err()
	for i := range changes {
		if answers[i] = ended; ended == nil {
			answers[i] = l.commit(&changes[i])
		}
	}
	switch {
	case ended == nil:
		dispatched, expired := ledger.Split(marks)
		l.mark(expired, true)
		l.mark(dispatched, false)
	case len(marks) > 0:
		answers = append(answers, ended)
	}
	return answers
}

func (l *Ledger) commit(c *notify.Change) error {
	var version int64
	name := ledger.Name(c)
	if u := l.users[name]; u != nil {
		version = u.version
	}
	if err := ledger.Check(c, version, l.key); err != nil {
		return err
	}
	if len(c.Decided) > 0 {
		if name == c.User && l.users[notify.Tombstone(c.User)] != nil {
			return engine.ErrConflict
		}
		u := l.user(name)
		u.version += int64(len(c.Decided))
		u.state = clone(c.State)
		for _, d := range c.Decided {
			l.record(name, u, d)
		}
	}
	for _, f := range c.FollowUps {
		if id := f.Event.ID; l.waiting[id] == nil && l.keys[id] == nil {
			l.waiting[id] = &deferral{Due: f, user: c.User, nextAt: f.DueAt}
		}
	}
	for _, p := range c.Postponed {
		if d := l.waiting[p.EventID]; d != nil && d.user == c.User {
			d.DueAt, d.nextAt = p.DueAt, p.DueAt
		}
	}
	return nil
}

func (l *Ledger) record(name string, u *user, d notify.Decided) {
	r := &d.Record
	d.Delivery = notify.Delivery{Status: notify.StatusOf(r.Outcome)}
	key := ledger.Key(r)
	key.User = name
	l.keys[r.EventID] = &key
	switch r.Outcome {
	case notify.Later:
		l.waiting[r.EventID] = &deferral{user: r.UserID, nextAt: r.DeferUntil, Due: notify.Due{
			Event: d.Event, Turn: notify.Turn{Number: r.Turn + 1, Spent: r.Spent},
			DueAt: r.DeferUntil, DigestKey: r.DigestKey, Slot: r.Slot,
		}}
	case notify.Never:
		delete(l.waiting, r.EventID)
	}
	if u.state.Erased {
		d = ledger.Blank(d)
	} else {
		u.records = append(u.records, &d)
	}
	l.decisions[d.Record.DecisionID] = &d
}

func (l *Ledger) mark(events []uuid.UUID, expired bool) {
	for _, event := range events {
		k := l.keys[event]
		if k == nil || k.Outcome != notify.Now {
			continue
		}
		if d := l.decisions[k.DecisionID]; expired && !k.Dispatched && d.Delivery.Status == notify.Pending {
			d.Delivery = notify.Delivery{Status: notify.DeliveryFailed, Error: notify.ErrorExpired}
		}
		k.Dispatched = true
		delete(l.waiting, event)
	}
}

// Find implements [notify.Ledger].
func (l *Ledger) Find(ctx context.Context, decisions []uuid.UUID) ([]notify.Known, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]notify.Known, len(decisions))
	for i, id := range decisions {
		if d := l.decisions[id]; d != nil {
			key := l.keys[d.Record.EventID]
			all[i] = ledger.Key(&d.Record)
			all[i].User, all[i].Dispatched = key.User, key.Dispatched && key.DecisionID == id
		}
	}
	return all, nil
}

// Forget implements [notify.Ledger].
func (l *Ledger) Forget(ctx context.Context, id string, at engine.Millis) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	id = l.person(id)
	name := notify.Tombstone(id)
	if l.users[name] != nil {
		return nil
	}
	l.forgetAliases(id, at)
	u := l.user(id)
	if u.state == nil {
		u.state = &notify.State{}
	}
	for _, d := range u.records {
		key := l.keys[d.Record.EventID]
		key.User, key.Dispatched = name, key.Outcome == notify.Now
		*d = ledger.Blank(*d)
	}
	maps.DeleteFunc(l.waiting, func(_ uuid.UUID, d *deferral) bool { return d.user == id })
	delete(l.users, id)
	l.users[name] = &user{version: u.version + 1, state: ledger.Erased(u.state.DecidedAt, at)}
	return nil
}

// SetPreferences replaces a user's preferences, whatever is stored.
func (l *Ledger) SetPreferences(ctx context.Context, id string, own notify.Preferences) error {
	_, err := l.UpdatePreferences(ctx, id, ledger.AnyVersion, own)
	return err
}

// UpdatePreferences replaces a user's preferences of a version and returns the next one. It
// raises the user's version too, so that a decision made with the former ones conflicts. The
// error is a [*ledger.VersionError] where others are stored.
func (l *Ledger) UpdatePreferences(ctx context.Context, id string, ifVersion int64, own notify.Preferences) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users[notify.Tombstone(id)] != nil {
		return 0, ledger.ErasedError(id)
	}
	if into := l.person(id); into != id {
		return 0, &ledger.MergedError{User: id, Into: into}
	}
	var stored int64
	if u := l.users[id]; u != nil {
		stored = u.changes
	}
	if err := ledger.CheckVersion(ifVersion, stored); err != nil {
		return 0, err
	}
	u := l.user(id)
	u.version++
	u.changes++
	u.own = own
	return u.changes, nil
}

// Preferences reads a user's preferences with their version.
func (l *Ledger) Preferences(ctx context.Context, id string) (p ledger.Preferences, err error) {
	if err := ctx.Err(); err != nil {
		return p, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if into := l.person(id); into != id {
		return p, &ledger.MergedError{User: id, Into: into}
	}
	if u := l.users[id]; u != nil {
		p.Own, p.Version = u.own, u.changes
	}
	p.Erased = l.users[notify.Tombstone(id)] != nil
	return p, nil
}

// clone returns a copy that a fold into the other does not change; nil of nil.
func clone(s *notify.State) *notify.State {
	if s == nil {
		return nil
	}
	return s.Clone()
}
