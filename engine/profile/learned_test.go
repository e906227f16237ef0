package profile_test

import (
	"testing"

	"keyfold/engine/profile"
)

// What settings say of learned components is read as it is written, and is in the name of the
// model.
func TestLearned(t *testing.T) {
	t.Parallel()
	var l profile.Learned
	for _, text := range []string{"128:3f9a2c41", "1:00000000", "1024:ffffffff"} {
		if err := l.UnmarshalText([]byte(text)); err != nil || l.String() != text {
			t.Errorf("%q is %+v: %v", text, l, err)
		}
		name := l.Model("text-embedding-3-small")
		if name != "text-embedding-3-small+learned-"+text || profile.LearnedIn(name) != l || profile.TextModel(name) != "text-embedding-3-small" {
			t.Errorf("%q: the model %q has %v", text, name, profile.LearnedIn(name))
		}
	}
	if err := l.UnmarshalText(nil); err != nil || l != (profile.Learned{}) || l.String() != "" || l.Model("a") != "a" {
		t.Errorf("nothing is %+v: %v", l, err)
	}
	for _, text := range []string{"128", "0:3f9a2c41", "128:3f9a2c4", "128:3F9A2C41", "01:3f9a2c41", "1025:3f9a2c41", "128:3f9a2c41 ", "-1:3f9a2c41"} {
		if err := l.UnmarshalText([]byte(text)); err == nil || l != (profile.Learned{}) {
			t.Errorf("%q is %+v", text, l)
		}
	}
	for _, model := range []string{"", "text-embedding-3-small", "a+learned-", "a+learned-x:y", "a+learned-128:3f9a2c41b"} {
		if l := profile.LearnedIn(model); l != (profile.Learned{}) || profile.TextModel(model) != model {
			t.Errorf("%q has %v", model, l)
		}
	}
}
