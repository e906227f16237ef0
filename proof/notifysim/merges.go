package notifysim

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/proof/notifyoracle"
	"keyfold/proof/schedule"
	"keyfold/sink/ledger"
)

// merging is a request to make one user's id another one's.
type merging struct {
	at          time.Duration
	alias, into int // users
}

// drawMerges draws merges: of two users, in chains, and the other way round.
func (p *plan) drawMerges(d *schedule.RNG) {
	if !d.Chance(600) {
		return
	}
	for range 1 + d.N(3) {
		m := merging{at: d.Between(0, p.quietAfter), alias: d.N(len(p.users) + 1), into: d.N(len(p.users) + 1)}
		if d.Chance(600) { // about when events come
			m.at = p.publishes[d.N(len(p.publishes))].at + d.Latency(10*time.Millisecond, time.Second)
		}
		p.merges = append(p.merges, m)
	}
}

// idOf returns the id of a user, of one behind the last an id of which nothing is known.
func (p *plan) idOf(user int) string {
	if user == len(p.users) {
		return "unknown"
	}
	return p.users[user].id
}

// mergeOf merges two users, by the process of some life at a time, until it is answered.
func (f *front) mergeOf(number int) {
	m := f.plan.merges[number]
	alias, into := f.plan.idOf(m.alias), f.plan.idOf(m.into)
	for try := uint64(0); ; try++ {
		d := f.rng("merge", uint64(number), try)
		time.Sleep(d.Between(time.Microsecond, time.Millisecond))
		f.mu.Lock()
		k := f.lives[d.N(len(f.lives))]
		f.mu.Unlock()
		if k != nil {
			ctx, cancel := context.WithCancel(k.ctx)
			if !f.quiet() && d.Chance(400) { // it is cut off
				ctx, cancel = context.WithTimeout(k.ctx, d.Between(time.Microsecond, 15*time.Millisecond))
			}
			done, err := ledger.MergeUsers(ctx, &merger{&client{k, k.store}}, alias, into, k.clock())
			cancel()
			if f.merged(alias, into, &done, err) {
				return
			}
		}
		time.Sleep(d.Latency(2*time.Second, 20*time.Second))
	}
}

// merged checks an answer, and says whether it is one. Two ids that are not one person's after it
// must have a reason not to be.
func (f *front) merged(alias, into string, done *ledger.Merged, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	permanent := err != nil && engine.KindOf(err) == engine.Permanent
	f.Note("front", "answers a merge of "+alias+" into "+into, boolOf(err == nil), boolOf(permanent), boolOf(done.Already))
	if err != nil && !permanent {
		return false
	}
	f.merging--
	f.again += boolOf(done.Already)
	_, gone := f.erased[alias]
	if _, too := f.erased[into]; too {
		gone = true
	}
	one := f.person(alias) == f.person(into)
	switch {
	case err == nil && !one && !gone:
		f.fault("a merge of %s into %s is answered, and they are %s and %s", alias, into, f.person(alias), f.person(into))
	case permanent && !gone && !one && f.person(alias) == alias:
		f.fault("a merge of %s into %s is refused: %w", alias, into, err)
	}
	return true
}

func boolOf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// person returns who has an id: itself, but of an alias. s.mu is held.
func (s *simulation) person(id string) string {
	for _, m := range s.store.merges {
		if m.Alias == id {
			id = m.Into
		}
	}
	return id
}

// ids returns all ids that a merge or the plan has, the plan's first.
func (s *simulation) ids() []string {
	ids := []string{"unknown"}
	for _, u := range s.plan.users {
		ids = append(ids, u.id)
	}
	return ids
}

// merger is a life's way to the ledger for merges.
type merger struct{ *client }

// Records implements [ledger.Merger].
func (m *merger) Records(ctx context.Context, f ledger.Filter) iter.Seq2[notify.Decided, error] {
	all, err := ask(ctx, m.client, "records", uint64(f.From), func(ctx context.Context) (all []notify.Decided, err error) {
		for d, err := range m.store.Records(ctx, f) {
			if err != nil {
				return nil, err
			}
			all = append(all, d)
		}
		return all, nil
	})
	return func(yield func(notify.Decided, error) bool) {
		if err != nil {
			yield(notify.Decided{}, err)
			return
		}
		for _, d := range all {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// OldestDay implements [ledger.Merger].
func (m *merger) OldestDay(ctx context.Context) (engine.Millis, error) {
	return ask(ctx, m.client, "oldest day", 0, m.store.OldestDay)
}

// Merge implements [ledger.Merger]. One whose answer is lost has happened, has not, or happens
// later.
func (m *merger) Merge(ctx context.Context, made *notify.Merge) (int, error) {
	d, err := m.request(ctx, "merge", uint64(made.AliasVersion))
	if err != nil {
		return 0, err
	}
	if !m.quiet() && d.Chance(m.plan.rates.lost) {
		wait := d.Latency(100*time.Millisecond, 20*time.Second)
		switch d.N(3) {
		case 0: // it does not happen
		case 1:
			_, _ = m.store.merge(made)
		case 2:
			m.store.mergeLater(d.Between(0, 3*wait), made)
		}
		if err := pause(ctx, wait); err != nil {
			return 0, err
		}
		return 0, errTimeout
	}
	decisions, err := m.store.merge(made)
	if errors.Is(err, engine.ErrConflict) {
		m.mu.Lock()
		m.store.conflicts++
		m.mu.Unlock()
	}
	if err := m.answer(ctx, &d); err != nil {
		return 0, err
	}
	return decisions, err
}

// mergeLater is merge after a while.
func (s *store) mergeLater(wait time.Duration, m *notify.Merge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late++
	time.AfterFunc(wait, func() {
		_, _ = s.merge(m)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.late--
	})
}

// merge writes a merge to the ledger, and checks that the preferences are what those in force
// come to.
func (s *store) merge(m *notify.Merge) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blindMerges {
		own := *m
		own.AliasVersion, own.IntoVersion = s.versionOf(m.Alias), s.versionOf(m.Into)
		m = &own
	}
	decisions, err := s.Merge(context.Background(), m)
	if err != nil {
		return 0, err
	}
	s.merges = append(s.merges, notifyoracle.Merge{Alias: m.Alias, Into: m.Into, AliasVersion: m.AliasVersion, IntoVersion: m.IntoVersion})
	s.Note("store", "merged: "+m.Alias+" into "+m.Into, int64(decisions), m.AliasVersion, m.IntoVersion)
	own, others := s.own[m.Into], s.own[m.Alias]
	want := notifyoracle.Joined(&own, &others)
	for _, difference := range notifyoracle.ComparePreferences(&want, &m.Preferences) {
		s.fault("%s is merged into %s: %s", m.Alias, m.Into, difference)
	}
	s.own[m.Into] = m.Preferences
	delete(s.own, m.Alias)
	return decisions, nil
}

func (s *store) versionOf(id string) int64 {
	found, err := s.Load(context.Background(), []notify.Ask{{User: id}})
	if err != nil {
		s.fault("load user %s: %w", id, err)
		return 0
	}
	return found[0].Version
}

// checkAlias checks that nothing is left of an alias but whose it is.
func (s *simulation) checkAlias(id string) {
	person := s.person(id)
	found, err := s.store.Load(context.Background(), []notify.Ask{{User: id, Deferrals: true}})
	if err != nil {
		s.fault("load user %s: %w", id, err)
		return
	}
	if state := found[0].State; state == nil || state.MergedInto != person || len(state.Sends)+len(state.Marks)+len(state.Reserved) > 0 {
		s.fault("alias %s of %s has the state %+v", id, person, state)
	}
	if n := len(found[0].Deferred); n > 0 {
		s.fault("%d deferrals wait under %s, an alias of %s", n, id, person)
	}
	for d, err := range s.store.Records(context.Background(), ledger.Filter{User: id}) {
		s.fault("alias %s of %s has the record %v, %v", id, person, d.Record.DecisionID, err)
	}
	all, err := s.store.Aliases(context.Background(), person)
	if err != nil || !slices.ContainsFunc(all, func(a notify.Alias) bool { return a.ID == id }) {
		s.fault("%s is not among the aliases of %s: %v, %v", id, person, all, err)
	}
}

// countMerges counts what became of merges: decisions on events of an alias, and digests with items
// of two ids.
func (s *simulation) countMerges(c *counts) {
	c.Merged, c.MergedAgain, c.MergeConflicts = int64(len(s.store.merges)), s.front.again, s.store.conflicts
	digests := map[uuid.UUID]string{}
	for i := range s.store.log {
		r := &s.store.log[i]
		e := s.plan.eventOf(r.EventID)
		if e == nil {
			continue
		}
		c.OfAliases += boolOf(e.UserID != r.UserID)
		if r.DigestID == uuid.Nil {
			continue
		}
		other, met := digests[r.DigestID]
		c.DigestsOfTwo += boolOf(met && other != e.UserID)
		digests[r.DigestID] = e.UserID
	}
}

// eraseAll notes that a person is erased, with all ids. s.mu is held.
func (s *simulation) eraseAll(id string) {
	person := s.person(id)
	for _, one := range s.ids() {
		if s.person(one) == person {
			s.erased[one] = time.Now()
		}
	}
	maps.DeleteFunc(s.own, func(one string, _ notify.Preferences) bool { return s.person(one) == person })
}

// Aliases implements [ledger.Merger].
func (m *merger) Aliases(ctx context.Context, user string) ([]notify.Alias, error) {
	return ask(ctx, m.client, "aliases", 0, func(ctx context.Context) ([]notify.Alias, error) { return m.store.Aliases(ctx, user) })
}
