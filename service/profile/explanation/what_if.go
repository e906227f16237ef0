package explanation

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine/profile"
	"keyfold/engine/profile/explain"
)

// whatIfs folds the profile anew as it is asked for.
func (b *builder) whatIfs() (folded []profile.State, err error) {
	for _, what := range b.Options.Without {
		leave, err := b.leave(what)
		if err != nil {
			return nil, err
		}
		left := 0
		for _, p := range b.Parts {
			if p.Event.State == "" && p.Event.Vector != nil && leave(p.Event) {
				left++
			}
		}
		b.view.WhatIf = append(b.view.WhatIf, WhatIf{What: "without " + what, Events: left})
		folded = append(folded, b.Explanation.Without(leave))
	}
	if half := b.HalfLife; half > 0 {
		b.view.WhatIf = append(b.view.WhatIf, WhatIf{What: "at a half-life of " + strings.TrimSuffix(strings.TrimSuffix(half.String(), "0s"), "0m")})
		folded = append(folded, b.WithDecay(math.Ln2/(half.Hours()/24)))
	}
	for i, s := range folded {
		if s.Vector != nil {
			b.view.WhatIf[i].Cosine = floats.Dot(s.Vector, b.Profile.Vector)
		}
	}
	return folded, nil
}

// leave returns which events a word means.
func (b *builder) leave(what string) (func(*explain.Event) bool, error) {
	if what == LastWrite {
		newest := b.Profile.Applied.Newest()
		if len(newest) == 0 {
			return nil, errors.New("--without last-write: the profile keeps no ids of its last write")
		}
		b.newest = func(e *explain.Event) bool { return slices.Contains(newest, e.Digest.ID()) }
		return b.newest, nil
	}
	if what == LastSession {
		sessions := b.Sessions()
		if len(sessions) == 0 {
			return nil, errors.New("--without last-session: no event of the profile is stored")
		}
		from := sessions[0].From
		return func(e *explain.Event) bool { return e.OccurredAt >= from }, nil
	}
	if t := profile.ParseEventType(what); t != 0 {
		return func(e *explain.Event) bool { return e.Type == t }, nil
	}
	ids := map[string]bool{}
	for _, p := range b.Parts {
		if strings.HasPrefix(p.Event.MessageID, what) {
			ids[p.Event.MessageID] = true
		}
	}
	if len(ids) != 1 {
		return nil, fmt.Errorf("--without %s: %d events of the user have a message_id that begins so: name one, a type (%v), %s or %s", what, len(ids), profile.EventTypes(), LastSession, LastWrite)
	}
	return func(e *explain.Event) bool { return ids[e.MessageID] }, nil
}
