package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/internal/cli"
	"keyfold/source/httpapi"
)

// preferences answers with a user's preferences, or replaces them.
func (a *API) preferences(r *httpapi.Request, user string) *httpapi.Answer {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if refused := r.Require(httpapi.ScopeRead); refused != nil {
			return refused
		}
		standings, err := a.ports.Ledger.Load(r.Context(), []notify.Ask{{User: user}})
		if err != nil {
			return unread(err, "the preferences could not be read; ask again")
		}
		return ok(standings[0].Preferences)
	case http.MethodPut:
		return a.putPreferences(r, user)
	default:
		return httpapi.RefuseMethod(r.Method, "GET, HEAD, PUT")
	}
}

func (a *API) putPreferences(r *httpapi.Request, user string) *httpapi.Answer {
	if refused := r.Require(httpapi.ScopeAdmin); refused != nil {
		return refused
	}
	if refused := r.JSON(); refused != nil {
		return refused
	}
	body, refused := r.Read()
	if refused != nil {
		return refused
	}
	own, members, err := ParsePreferences(body)
	if err != nil {
		var faults []httpapi.Fault
		for text := range strings.Lines(err.Error()) {
			field := ""
			if members != nil {
				field, _, _ = strings.Cut(text, ":")
			}
			faults = append(faults, httpapi.Fault{Field: field, Reason: "bad_preferences", Error: strings.TrimSuffix(text, "\n")})
		}
		return httpapi.Refuse(http.StatusBadRequest, faults...)
	}
	if err := a.ports.Ledger.SetPreferences(r.Context(), user, own); err != nil {
		if engine.KindOf(err) == engine.Permanent {
			return httpapi.Refuse(http.StatusConflict, httpapi.Fault{Field: "user_id", Reason: engine.ReasonOf(err), Error: err.Error()})
		}
		return unread(err, "the preferences could not be stored; send them again")
	}
	return ok(own)
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

// preferenceFields are the members of preferences in JSON.
var preferenceFields = []string{"zone", "quiet", "muted", "channels", "caps"}

// ParsePreferences reads preferences strictly: a misspelt field would have no effect.
func ParsePreferences(text []byte, more ...string) (own notify.Preferences, members map[string]json.RawMessage, err error) {
	decode := json.NewDecoder(bytes.NewReader(text))
	if err := decode.Decode(&members); err != nil {
		return own, nil, fmt.Errorf("it must be a JSON object: %w", err)
	}
	if members == nil {
		return own, nil, errors.New("it must be a JSON object, found null: write {} for no preferences")
	}
	if decode.More() {
		return own, nil, errors.New("something follows the JSON object")
	}
	var faults []error
	known := slices.Concat(more, preferenceFields)
	for name := range members {
		if !slices.Contains(known, name) {
			faults = append(faults, fmt.Errorf("%s: no such field; the fields are %s", cli.Printable(name), strings.Join(known, ", ")))
		}
	}
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	// Each field by itself, so that all faults are named.
	for _, name := range preferenceFields {
		if value, ok := members[name]; ok {
			if err := checkShape(name, value); err != nil {
				faults = append(faults, err)
				continue
			}
			var part notify.Preferences
			object, err := json.Marshal(map[string]json.RawMessage{name: value})
			if err == nil {
				err = json.Unmarshal(object, &part)
			}
			if err != nil {
				for text := range strings.Lines(err.Error()) {
					faults = append(faults, fmt.Errorf("%s: %s", name, strings.TrimSuffix(text, "\n")))
				}
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return own, members, err
	}
	if err := json.Unmarshal(text, &own); err != nil {
		return own, members, err
	}
	return own, members, errors.Join(checkPreferences(&own)...)
}

// checkPreferences returns the faults of preferences whose types are right.
func checkPreferences(own *notify.Preferences) (faults []error) {
	if err := own.Quiet.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("quiet: %w", err))
	}
	// JSON's null and "" leave an entry as it is.
	if slices.Contains(own.Muted, 0) {
		faults = append(faults, errors.New("muted: found an entry without a name, expected names of types"))
	}
	if slices.Contains(own.Muted, notify.Security) {
		faults = append(faults, errors.New("muted: SECURITY cannot be muted: leave it out"))
	}
	if slices.Contains(own.Channels, 0) {
		faults = append(faults, errors.New("channels: found an entry without a name, expected names of channels"))
	}
	for i, limit := range own.Caps {
		if limit < 0 || limit > notify.MaxCap {
			faults = append(faults, fmt.Errorf("caps: entry %d is %d: it must be from 0 (the policy's) to %d", i+1, limit, notify.MaxCap))
		}
	}
	return faults
}

// checkShape refuses a member whose JSON is of another kind than its field.
func checkShape(name string, value json.RawMessage) error {
	var err error
	var shape string
	switch name {
	case "zone":
		shape, err = `a string such as "Europe/Berlin"`, json.Unmarshal(value, new(string))
	case "muted":
		shape, err = `a list such as ["PROMO"]`, json.Unmarshal(value, new([]string))
	case "channels":
		shape, err = `a list such as ["push","in_app"]`, json.Unmarshal(value, new([]string))
	case "caps":
		var caps []int
		shape, err = "a list of three integers, for 5 minutes, 1 hour and 24 hours, such as [2,4,10]", json.Unmarshal(value, &caps)
		if err == nil && caps != nil && len(caps) != len(notify.Windows) {
			err = errors.New("another number of caps")
		}
	}
	if err != nil {
		return fmt.Errorf("%s: found %.60s, expected %s", name, cli.Printable(string(value)), shape)
	}
	return nil
}

// CheckUser judges a user's id.
func CheckUser(id string) error {
	if n := utf8.RuneCountInString(id); n < 1 || n > notify.MaxUserRunes || !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		return fmt.Errorf("a user id has 1 to %d characters, none of them NUL", notify.MaxUserRunes)
	}
	return nil
}
