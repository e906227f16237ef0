package notifyoracle

import (
	"cmp"
	"slices"

	"keyfold/engine/notify"
)

// ids are all that records and merges name. Those that were merged come first, in the order of
// their merges: so an event's records are met in their order.
func (c *checker) ids() (all []string) {
	for _, m := range c.Merges {
		all = append(all, m.Alias)
	}
	var others []string
	for id := range c.users {
		others = append(others, id)
	}
	for _, m := range c.Merges {
		others = append(others, m.Into)
	}
	for _, id := range setOf(others) {
		if !slices.Contains(all, id) {
			all = append(all, id)
		}
	}
	return all
}

// isAlias reports whether an id was merged into another one.
func (r *Run) isAlias(id string) bool {
	return slices.ContainsFunc(r.Merges, func(m Merge) bool { return m.Alias == id })
}

// standsFor reports whether an id is a user's, by itself or since a merge.
func (r *Run) standsFor(id, user string) bool {
	for _, m := range r.Merges {
		if id != user && m.Alias == id {
			id = m.Into
		}
	}
	return id == user
}

// person returns whose an id is in the end.
func (r *Run) person(id string) string {
	for _, m := range r.Merges {
		if m.Alias == id {
			id = m.Into
		}
	}
	return id
}

// walk goes through the records of a person in the order in which they were decided. Those of
// an alias are those of another user until the merge; of an alias it goes through those that came later. each is told what the user was before;
// where it returns false, the walk ends.
func (c *checker) walk(id string, each func(u *User, r *notify.Record) bool) *User {
	if !c.isAlias(id) {
		u, _ := c.walkUntil(id, -1, each)
		return u
	}
	u := &User{oracle: c.oracle} // what comes for an alias of an erased person
	for _, r := range c.users[id] {
		if r.Seq > c.versionOf(id) && !each(u, r) {
			break
		}
	}
	return u
}

// versionOf returns the version up to which the records of an alias are its person's.
func (r *Run) versionOf(alias string) int64 {
	return r.Merges[slices.IndexFunc(r.Merges, func(m Merge) bool { return m.Alias == alias })].AliasVersion
}

// walkUntil walks through the records of an id up to a version, -1 for all.
func (c *checker) walkUntil(id string, version int64, each func(u *User, r *notify.Record) bool) (u *User, ok bool) {
	u = &User{oracle: c.oracle}
	var merges []Merge
	for _, m := range c.Merges {
		if m.Into == id {
			merges = append(merges, m)
		}
	}
	take := func() bool {
		alias, ok := c.walkUntil(merges[0].Alias, merges[0].AliasVersion, each)
		u.Merge(alias)
		merges = merges[1:]
		return ok
	}
	for _, r := range c.users[id] {
		if version >= 0 && r.Seq > version {
			break
		}
		for len(merges) > 0 && r.Seq > merges[0].IntoVersion {
			if !take() {
				return u, false
			}
		}
		if !each(u, r) {
			return u, false
		}
	}
	for len(merges) > 0 {
		if !take() {
			return u, false
		}
	}
	return u, true
}

// RecordsOf returns the records of a person in the order in which they are that person's.
func (r *Run) RecordsOf(id string) []*notify.Record {
	var all []*notify.Record
	for i := range r.Records {
		if r.Records[i].UserID == id {
			all = append(all, &r.Records[i])
		}
	}
	slices.SortStableFunc(all, func(a, b *notify.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, m := range r.Merges {
		if m.Into != id {
			continue
		}
		after := slices.IndexFunc(all, func(one *notify.Record) bool { return one.UserID == id && one.Seq > m.IntoVersion })
		if after < 0 {
			after = len(all)
		}
		both := slices.Concat(all[:after], r.RecordsOf(m.Alias))
		slices.SortStableFunc(both, func(a, b *notify.Record) int { return cmp.Compare(a.DecidedAt, b.DecidedAt) })
		all = slices.Concat(both, all[after:])
	}
	return all
}
