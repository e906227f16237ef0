package processor_test

import (
	"testing"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// An event whose type has no row in the table of types would be folded with the weight of
// another type. It is dead-lettered, and the user's other events are folded without it.
func TestUnlistedTypeIsNotFolded(t *testing.T) {
	for _, unlisted := range []profile.EventType{0, profile.EventType(len(profile.EventTypes()) + 1), 255} {
		f := newFixture(t)
		good, bad := view(1, "a", 1, 1), view(1, "b", 2, 2)
		bad.event.Type = unlisted
		f.apply(batch(good, bad))
		good.want(t, engine.Folded)
		if v := bad.want(t, engine.Dead); v.Reason != engine.ReasonUnknownEventType {
			t.Errorf("type %d is dead-lettered for %s: %v", unlisted, v.Reason, v.Err)
		}
		sameAsReference(t, f, f.profile(t, 1), []*letter{good})

		r, err := f.Rebuild(t.Context(), 1, nil, history(false, good, bad))
		if err != nil || r.Dead != 1 {
			t.Fatalf("rebuild with type %d: %+v, %v", unlisted, r, err)
		}
		sameAsReference(t, f, r.Profile, []*letter{good})
	}
}
