package memory

import (
	"context"
	"slices"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// person returns the user that an id stands for: itself, but of an alias.
func (l *Ledger) person(id string) string {
	if u := l.users[id]; u != nil && u.state != nil && u.state.MergedInto != "" {
		return u.state.MergedInto
	}
	return id
}

// Merge implements [ledger.Merger].
func (l *Ledger) Merge(ctx context.Context, m *notify.Merge) (decisions int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.version(m.Alias) != m.AliasVersion || l.version(m.Into) != m.IntoVersion {
		return 0, engine.ErrConflict
	}
	alias, into := l.user(m.Alias), l.user(m.Into)
	l.moveRecords(alias, into, m.Into)
	for _, d := range l.waiting {
		if d.user == m.Alias {
			d.user = m.Into
			event := *d.Event // which a claim may have handed out
			event.Person = m.Into
			d.Event = &event
		}
	}
	if alias.changes > 0 {
		into.own = m.Preferences
		into.changes = max(alias.changes, into.changes) + 1 // a version of either is none of theirs
	}
	into.responses = into.responses.Join(alias.responses)
	into.version, into.state = m.AliasVersion+m.IntoVersion+1, clone(m.State)
	for _, a := range l.aliases[m.Alias] {
		l.putAlias(a, m)
	}
	delete(l.aliases, m.Alias)
	decisions = len(alias.records)
	l.putAlias(notify.Alias{ID: m.Alias, MergedAt: m.At}, m)
	return decisions, nil
}

// version returns the version of a user, of an erased one that of the tombstone.
func (l *Ledger) version(id string) int64 {
	for _, name := range []string{id, notify.Tombstone(id)} {
		if u := l.users[name]; u != nil {
			return u.version
		}
	}
	return 0
}

// moveRecords makes the records of an alias those of a user, and numbers both anew in their
// order.
func (l *Ledger) moveRecords(alias, into *user, name string) {
	for _, d := range alias.records {
		d.Record.UserID = name
		if d.Event != nil {
			event := *d.Event
			event.Person = name
			d.Event = &event
		}
		if k := l.keys[d.Record.EventID]; k != nil {
			k.User = name
		}
	}
	ordered := notify.Interleave(alias.records, into.records, func(d **notify.Decided) engine.Millis { return (*d).Record.DecidedAt })
	all := make([]*notify.Decided, len(ordered))
	for i, d := range ordered {
		all[i] = *d
		all[i].Record.Seq = int64(i) + 1
	}
	into.records = all
}

// putAlias makes an id stand for a user.
func (l *Ledger) putAlias(a notify.Alias, m *notify.Merge) {
	l.users[a.ID] = &user{version: l.version(a.ID) + 1, state: m.OfAlias()}
	l.aliases[m.Into] = append(l.aliases[m.Into], a)
}

// forgetAliases erases the other ids of a user.
func (l *Ledger) forgetAliases(id string, at engine.Millis) {
	for _, a := range l.aliases[id] {
		u := l.users[a.ID]
		delete(l.users, a.ID)
		l.users[notify.Tombstone(a.ID)] = &user{version: u.version + 1, state: ledger.Erased(u.state.DecidedAt, at)}
	}
	delete(l.aliases, id)
}

// Aliases returns the ids that stand for a user, in the order in which they were merged.
func (l *Ledger) Aliases(ctx context.Context, id string) ([]notify.Alias, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.aliases[id]), ctx.Err()
}

// OldestDay returns 0: the records of all days are kept.
func (l *Ledger) OldestDay(ctx context.Context) (engine.Millis, error) { return 0, ctx.Err() }
