package preference

import (
	"encoding/json"

	"keyfold/engine/notify"
)

// Patch reads a JSON Merge Patch (RFC 7396) and returns the change that it makes: a member
// that is null is removed, an object is merged, anything else replaces. The result is judged
// as [Parse] judges. Errors are [Faults].
func Patch(text []byte) (func(notify.Preferences) (notify.Preferences, error), error) {
	members, err := object(text)
	if err != nil {
		return nil, err
	}
	// A misspelt member that is null would have no effect.
	if err := unknown(members, fields).err(); err != nil {
		return nil, err
	}
	return func(stored notify.Preferences) (own notify.Preferences, err error) {
		before, err := json.Marshal(stored)
		if err != nil {
			return own, err
		}
		after, err := merge(before, text)
		if err != nil {
			return own, err
		}
		own, _, err = Parse(after)
		return own, err
	}, nil
}

// merge is MergePatch of RFC 7396. Values that are no objects keep their text.
func merge(target, patch json.RawMessage) (json.RawMessage, error) {
	var change map[string]json.RawMessage
	if isObject := json.Unmarshal(patch, &change) == nil && change != nil; !isObject {
		return patch, nil
	}
	var merged map[string]json.RawMessage
	if json.Unmarshal(target, &merged) != nil || merged == nil {
		merged = map[string]json.RawMessage{}
	}
	for name, value := range change {
		if isNull(value) {
			delete(merged, name)
			continue
		}
		one, err := merge(merged[name], value)
		if err != nil {
			return nil, err
		}
		merged[name] = one
	}
	return json.Marshal(merged)
}
