package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/service/notify/preference"
	"keyfold/sink/ledger"
	"keyfold/source/httpapi"
)

// preferences answers with a user's preferences and their version, or changes them.
func (a *API) preferences(r *httpapi.Request, user string) *httpapi.Answer {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if refused := r.Require(httpapi.ScopeRead); refused != nil {
			return refused
		}
		stored, err := preference.Follow(a.ports.Ledger).Preferences(r.Context(), user)
		if err != nil {
			return unread(err, "the preferences could not be read; ask again")
		}
		return versioned(stored)
	case http.MethodPut:
		return a.change(r, user, "application/json")
	case http.MethodPatch:
		return a.change(r, user, "application/merge-patch+json", "application/json")
	default:
		return httpapi.RefuseMethod(r.Method, "GET, HEAD, PUT, PATCH")
	}
}

// versioned answers with preferences, whose version is the ETag.
func versioned(p ledger.Preferences) *httpapi.Answer {
	answer := ok(p.Own)
	answer.Header = http.Header{"Etag": {tagOf(p.Version)}}
	return answer
}

func tagOf(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// change replaces preferences, or changes what a merge patch names.
func (a *API) change(r *httpapi.Request, user string, types ...string) *httpapi.Answer {
	if refused := r.Require(httpapi.ScopeAdmin); refused != nil {
		return refused
	}
	if refused := r.Typed(types...); refused != nil {
		return refused
	}
	ifVersion, refused := ifMatch(r.Header.Values("If-Match"))
	if refused != nil {
		return refused
	}
	body, refused := r.Read()
	if refused != nil {
		return refused
	}
	make, err := changeOf(r.Method, body)
	var stored ledger.Preferences
	if err == nil {
		stored, err = preference.Change(r.Context(), preference.Follow(a.ports.Ledger), user, ifVersion, make)
	}
	if err != nil {
		return unchanged(err)
	}
	return versioned(stored)
}

func changeOf(method string, body []byte) (func(notify.Preferences) (notify.Preferences, error), error) {
	if method == http.MethodPatch {
		return preference.Patch(body)
	}
	own, members, err := preference.Parse(body)
	return preference.Replacement(own, members), err
}

// unchanged answers where preferences were not changed.
func unchanged(err error) *httpapi.Answer {
	if faults, ok := errors.AsType[preference.Faults](err); ok {
		all := make([]httpapi.Fault, len(faults))
		for i, f := range faults {
			all[i] = httpapi.Fault{Field: f.Field, Reason: "bad_preferences", Error: f.Text}
		}
		return httpapi.Refuse(http.StatusBadRequest, all...)
	}
	if other, ok := errors.AsType[*ledger.VersionError](err); ok {
		answer := refuse(http.StatusPreconditionFailed, "", "version_conflict", other.Error())
		answer.Header = http.Header{"Etag": {tagOf(other.Present)}}
		return answer
	}
	if engine.KindOf(err) == engine.Permanent {
		return refuse(http.StatusConflict, "user_id", engine.ReasonOf(err), err.Error())
	}
	return unread(err, "the preferences could not be stored; send them again")
}

// noVersion is no version that is ever stored.
const noVersion = -2

// ifMatch returns the version that a request names, [ledger.AnyVersion] where it names none.
// A tag that is no version of preferences matches none.
func ifMatch(values []string) (int64, *httpapi.Answer) {
	text := strings.TrimSpace(strings.Join(values, ","))
	if len(values) == 0 || text == "*" {
		return ledger.AnyVersion, nil
	}
	if strings.Contains(text, ",") {
		return 0, refuse(http.StatusBadRequest, "", "bad_parameter", fmt.Sprintf("If-Match has several versions: send one, such as %s", tagOf(7)))
	}
	digits, quoted := strings.CutPrefix(text, `"`)
	digits, ended := strings.CutSuffix(digits, `"`)
	version, err := strconv.ParseInt(digits, 10, 64)
	if !quoted || !ended || err != nil || version < 0 {
		return noVersion, nil
	}
	return version, nil
}

// forget erases a user, whether anything is stored of the user or not.
func (a *API) forget(r *httpapi.Request, user string) *httpapi.Answer {
	if r.Method != http.MethodDelete {
		return httpapi.RefuseMethod(r.Method, http.MethodDelete)
	}
	if refused := r.Require(httpapi.ScopeAdmin); refused != nil {
		return refused
	}
	if err := a.ports.Ledger.Forget(r.Context(), user, engine.Now()); err != nil {
		return unread(err, "the user could not be erased, or not all of it; ask again: it goes on")
	}
	return ok(map[string]any{"user_id": user, "erased": true})
}
