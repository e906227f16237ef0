package workload

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/proof/notifyoracle"
)

// unmerged gives the records of users who were merged the user_id that they were written with, by
// the user_id with which their events were posted, and returns the merges. A merge numbers the records of both anew from
// 1 on, and leaves out a number after them: by that it is known which were written before. It
// is so where a person has one alias.
func unmerged(records []notify.Record, posted map[uuid.UUID]string) (merges []notifyoracle.Merge, err error) {
	users := map[string][]*notify.Record{}
	aliases := map[string]string{}
	for i := range records {
		r := &records[i]
		users[r.UserID] = append(users[r.UserID], r)
		alias := cmp.Or(posted[r.EventID], r.UserID)
		if alias == r.UserID {
			continue
		}
		if other := cmp.Or(aliases[r.UserID], alias); other != alias {
			return nil, fmt.Errorf("user %s has the aliases %s and %s: merge one user into another once", r.UserID, other, alias)
		}
		aliases[r.UserID] = alias
	}
	for user, alias := range aliases {
		all := users[user]
		slices.SortFunc(all, func(a, b *notify.Record) int { return cmp.Compare(a.Seq, b.Seq) })
		before := int64(0)
		for _, r := range all {
			if r.Seq != before+1 {
				break
			}
			if before = r.Seq; posted[r.EventID] == alias {
				r.UserID = alias
			}
		}
		merges = append(merges, notifyoracle.Merge{Alias: alias, Into: user, AliasVersion: before, IntoVersion: before})
	}
	return merges, nil
}
