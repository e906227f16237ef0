package outbox

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// fetch reads rows of the leased shards, in the order of their ids: the oldest
// ones, but of one user at most half of a shard's share, so that the others of
// the shard do not wait for the end of that user's backlog. read is how many it found.
func (r *Relay) fetch(ctx context.Context, l *lease, find query) (all []stored, read int, err error) {
	shards := l.shards
	if find.filter.backfill {
		for _, shard := range l.shards {
			shards = append(slices.Clip(shards), shard+backfillShards)
		}
	}
	share := max(1, r.config.BatchRows/len(shards))
	wants := make([]want, len(shards))
	for i, shard := range shards {
		wants[i] = want{shard: shard, rows: share, without: slices.Clone(find.held[shard%Shards])}
	}
	users, kept, pages := map[int32]int{}, map[int][]stored{}, 0
	for ; len(wants) > 0 && pages < maxBusyUsers; pages++ {
		rows, err := r.fetchOnce(ctx, l, wants, find.filter)
		if err != nil {
			return nil, 0, err
		}
		wants = narrow(wants, rows, users, max(1, share/2), func(shard int, row stored) { kept[shard] = append(kept[shard], row) })
	}
	for _, rows := range kept {
		all = append(all, rows...)
	}
	slices.SortFunc(all, byRowID)
	read = len(all)
	if pages > 1 {
		all, err = r.dropEarly(ctx, l, find.filter, kept, all)
	}
	return all, read, err
}

func byRowID(a, b stored) int { return cmp.Compare(a.ID, b.ID) }

// maxBusyUsers is how many users with more rows than one may have in a batch a
// fetch looks past.
const maxBusyUsers = 4

// want is what a fetch still wants of a shard.
type want struct {
	shard   int
	rows    int
	after   int64   // the last id read
	without []int32 // users
}

// narrow keeps the rows that one fetch brought, of each user so many at most, and
// returns what to fetch instead of those left out.
func narrow(wants []want, rows map[int][]stored, users map[int32]int, most int, keep func(int, stored)) []want {
	var more []want
	for _, w := range wants {
		got := rows[w.shard]
		full := len(got) == w.rows // or there is no more
		for _, row := range got {
			user := row.Event.UserID
			w.after = row.ID
			if users[user] == most {
				w.without = append(w.without, user)
			}
			if users[user]++; users[user] <= most {
				w.rows--
				keep(w.shard, row)
			}
		}
		if full && w.rows > 0 {
			more = append(more, w)
		}
	}
	return more
}

// fetchOnce reads the oldest rows that are wanted, by shard. The ids behind which
// it begins are compared as sums, which keeps InnoDB from reading a range of the
// index: at a range's end it would go on through all entries that are marked as
// deleted and not yet purged, those of other shards too.
func (r *Relay) fetchOnce(ctx context.Context, l *lease, wants []want, filter Filter) (map[int][]stored, error) {
	waits, err := r.db.waits(ctx)
	if err != nil {
		return nil, err
	}
	var u union
	for _, w := range wants {
		for _, condition := range waits {
			query := "SELECT " + rowColumns + ", shard FROM user_interactions" + r.db.words.index("idx_unsent") +
				" WHERE " + condition + " AND shard = ? AND id + 0 > ?"
			args := []any{w.shard, w.after}
			if len(w.without) > 0 {
				query += " AND user_id NOT IN (" + list(len(w.without)) + ")"
				args = append(args, anyOf(w.without)...)
			}
			query, args = filter.restrict(query, args)
			u.add(r.db.words.part(query+" ORDER BY "+r.db.words.oldestFirst+" LIMIT ?"), append(args, w.rows)...)
		}
	}
	rows := map[int][]stored{}
	err = each(ctx, l.run, func(s scanner) error {
		var shard int
		row, err := scanStored(extended{s, []any{&shard}})
		row.shard = shard % Shards
		rows[shard] = append(rows[shard], row)
		return err
	}, u.query(), u.args...)
	for _, w := range wants {
		got := rows[w.shard]
		slices.SortFunc(got, byRowID)
		rows[w.shard] = got[:min(len(got), w.rows)]
	}
	return rows, err
}

// dropEarly leaves out what would go before an earlier row of its user that came to light
// behind the page it would have been on. So the last that a batch reads of what waits is
// one statement on all of it.
func (r *Relay) dropEarly(ctx context.Context, l *lease, filter Filter, kept map[int][]stored, all []stored) ([]stored, error) {
	waits, err := r.db.waits(ctx)
	if err != nil || len(all) == 0 {
		return all, err
	}
	var u union
	for shard, rows := range kept {
		ids, users := make([]int64, len(rows)), make([]int32, len(rows))
		for i := range rows {
			ids[i], users[i] = rows[i].ID, rows[i].Event.UserID
		}
		slices.Sort(users)
		users = slices.Compact(users)
		for _, condition := range waits {
			query, args := filter.restrict("SELECT user_id, MIN(id) FROM user_interactions"+r.db.words.index("idx_unsent")+" WHERE "+condition+
				" AND shard = ? AND id + 0 < ? AND user_id IN ("+list(len(users))+") AND id NOT IN ("+list(len(ids))+")",
				slices.Concat([]any{shard, slices.Max(ids)}, anyOf(users), anyOf(ids)))
			u.add(query+" GROUP BY user_id", args...)
		}
	}
	earlier := map[int32]int64{}
	err = each(ctx, l.run, func(s scanner) error {
		var user int32
		var id int64
		err := s.Scan(&user, &id)
		if known := earlier[user]; known == 0 || id < known {
			earlier[user] = id
		}
		return err
	}, u.query(), u.args...)
	return upTo(all, func(row *stored) bool { id := earlier[row.Event.UserID]; return id == 0 || row.ID < id }), err
}

// union is a query of several parts.
type union struct {
	parts []string
	args  []any
}

func (u *union) add(part string, args ...any) {
	u.parts, u.args = append(u.parts, part), append(u.args, args...)
}

func (u *union) query() string { return strings.Join(u.parts, " UNION ALL ") }
