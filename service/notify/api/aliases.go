package api

import (
	"context"
	"net/http"
	"strings"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/sink/ledger"
	"keyfold/source/httpapi"
)

// aliasesPath is behind a user.
const aliasesPath = "/aliases"

// Alias is an id that stands for a user.
type Alias struct {
	Alias    string `json:"alias"`
	MergedAt string `json:"merged_at"`
}

// aliases answers with the ids that stand for a user, or makes another id one of them. at is
// what follows in the path.
func (a *API) aliases(r *httpapi.Request, user, at string) *httpapi.Answer {
	user, refused := userIn(user)
	switch {
	case refused != nil:
		return refused
	case at == "":
		return reading(r, func() *httpapi.Answer { return a.listAliases(r.Context(), user) })
	case !strings.HasPrefix(at, "/"):
		return noSuchPath()
	case r.Method != http.MethodPut:
		return httpapi.RefuseMethod(r.Method, http.MethodPut)
	}
	if refused := r.Require(httpapi.ScopeAdmin); refused != nil {
		return refused
	}
	alias, refused := userIn(at[1:])
	if refused != nil {
		return refused
	}
	return a.merge(r.Context(), alias, user)
}

func (a *API) listAliases(ctx context.Context, user string) *httpapi.Answer {
	person, err := ledger.Person(ctx, a.ports.Ledger, user)
	var found []notify.Alias
	if err == nil {
		found, err = a.ports.Ledger.Aliases(ctx, person)
	}
	if err != nil {
		return unread(err, "the aliases could not be read; ask again")
	}
	all := make([]Alias, len(found))
	for i := range found {
		all[i] = Alias{found[i].ID, instant(found[i].MergedAt)}
	}
	return ok(map[string]any{"user_id": person, "aliases": all})
}

// merge makes alias an id of a user.
func (a *API) merge(ctx context.Context, alias, user string) *httpapi.Answer {
	done, err := ledger.MergeUsers(ctx, a.ports.Ledger, alias, user, engine.Now())
	switch {
	case engine.KindOf(err) == engine.Permanent:
		return refuse(http.StatusConflict, "user_id", engine.ReasonOf(err), err.Error())
	case err != nil:
		return unread(err, "the users could not be merged; ask again: what is merged stays so")
	}
	return ok(done)
}

// own tells entries of aliases whose they are, of those whose keys are another user's. It
// returns the keys that are another user's all the same. An event itself is not changed: it may
// be on its way to a decision.
func (a *API) own(ctx context.Context, keys []notify.Known, of func(*notify.Known) *entry) (others []notify.Known, err error) {
	var ids []string
	for i := range keys {
		ids = append(ids, of(&keys[i]).event.UserID)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	persons, err := ledger.Persons(ctx, a.ports.Ledger, ids...)
	if err != nil {
		return nil, err
	}
	for i := range keys {
		e := of(&keys[i])
		if e.person = persons[e.event.UserID]; !keys[i].Of(e.person) {
			others = append(others, keys[i])
		}
	}
	return a.withoutErased(ctx, others, of)
}

// withoutErased leaves out the keys of erased users whose events were posted for erased ones: of
// an alias it is no longer known whose it was.
func (a *API) withoutErased(ctx context.Context, keys []notify.Known, of func(*notify.Known) *entry) (others []notify.Known, err error) {
	var ids []string
	for i := range keys {
		if keys[i].Erased() {
			ids = append(ids, of(&keys[i]).event.UserID)
		}
	}
	if len(ids) == 0 {
		return keys, nil
	}
	erased, err := ledger.ErasedOf(ctx, a.ports.Ledger, ids...)
	if err != nil {
		return nil, err
	}
	for i := range keys {
		if !keys[i].Erased() || !erased[of(&keys[i]).event.UserID] {
			others = append(others, keys[i])
		}
	}
	return others, nil
}
