package main

import (
	"encoding/json"
	"net/http"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// beside makes a request beside the events now and then: a cancellation, a change of a user's
// preferences, or a merge of two users; nil: none.
func (f *notifyFeed) beside() func(int) error {
	if len(f.recent) == 0 || len(f.posts) == 0 {
		return nil
	}
	e := f.recent[len(f.recent)-1-f.random.IntN(min(len(f.recent), 200))]
	first := f.random.IntN(len(f.posts))
	switch f.random.IntN(20) {
	case 0, 1:
		return f.cancels(e, first)
	case 2:
		return f.changes(e.UserID, first)
	case 3:
		if f.random.IntN(2) == 0 {
			return f.merges(e.UserID, first)
		}
	}
	return nil
}

// merges makes a user an alias of another one who had events a moment ago, neither of which was
// merged before. Events of both go on.
func (f *notifyFeed) merges(alias string, first int) func(int) error {
	into := f.recent[len(f.recent)-1-f.random.IntN(min(len(f.recent), 50))].UserID
	if alias == into || f.inMerges[alias] || f.inMerges[into] {
		return nil
	}
	f.inMerges[alias], f.inMerges[into] = true, true
	f.merged.Add(1)
	return func(try int) error {
		return sendTo(http.MethodPut, f.posts[(first+try)%len(f.posts)], "/v1/users/"+into+"/aliases/"+alias, "", nil)
	}
}

// cancels ends an event that was posted a moment ago, perhaps before it came, or all with its
// dedupe_key.
func (f *notifyFeed) cancels(e *notify.Notification, first int) func(int) error {
	asked := map[string]any{"user_id": e.UserID, "event_id": e.ID}
	if e.DedupeKey != "" && f.random.IntN(2) == 0 {
		asked = map[string]any{"user_id": e.UserID, "dedupe_key": e.DedupeKey}
	}
	body, _ := json.Marshal(asked) // strings cannot fail
	f.cancelled.Add(1)
	return func(try int) error { return postTo(f.posts[(first+try)%len(f.posts)], "/v1/cancellations", "", body) }
}

// changes has a user choose other channels of a topic, mute all for a moment, or neither. What
// is snoozed would be spread over ten minutes after it.
func (f *notifyFeed) changes(user string, first int) func(int) error {
	var change any
	switch f.random.IntN(4) {
	case 0:
		change = map[string]any{"topics": map[string]any{"offers": map[string]any{"channels": map[string]string{"push": "digest", "email": "off"}}}}
	case 1:
		change = map[string]any{"topics": map[string]any{"orders": map[string]any{"channels": map[string]string{"push": "digest", "in_app": "digest", "email": "digest"}}}}
	case 2:
		change = map[string]any{"muted_until": (engine.Now() + 20_000).Time().UTC().Format("2006-01-02T15:04:05.000Z")}
	default:
		change = map[string]any{"topics": nil, "muted_until": nil}
	}
	body, _ := json.Marshal(change)
	f.changed.Add(1)
	return func(try int) error {
		return sendTo(http.MethodPatch, f.posts[(first+try)%len(f.posts)], "/v1/users/"+user+"/preferences", "", body)
	}
}

// replaces has an event in twelve replace another one of its user.
func (f *notifyFeed) replaces(e *notify.Notification) (*notify.Notification, error) {
	if f.random.IntN(12) > 0 {
		return e, nil
	}
	body := map[string]json.RawMessage{}
	if err := json.Unmarshal(e.Body, &body); err != nil {
		return nil, err
	}
	set := func(name string, value any) { body[name], _ = json.Marshal(value) }
	id := uuid.Nil
	for _, o := range f.recent[max(0, len(f.recent)-400):] {
		if o.UserID == e.UserID {
			id = o.ID
		}
	}
	switch {
	case e.DedupeKey != "":
		set("replaces", "dedupe_key")
	case id != uuid.Nil:
		set("replaces", id)
	default:
		return e, nil
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	f.replacing.Add(1)
	return notify.Parse(text, engine.Now())
}
