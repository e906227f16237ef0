package notify

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"keyfold/internal/testserver/must"
)

// checkTaste decides again with another taste. Taste acts in the stage of the score
// alone: whatever the cosine is, or why it is not known, mutes, channels, duplicates,
// rules, caps, cooldowns, quiet hours and expiry hold, send and drop the same events,
// until the same time.
func (h *history) checkTaste(t *rapid.T, s scene, r *Record) {
	s.score = rapid.SampledFrom([]Score{
		{}, {Skip: SkipEmbeddingLate}, {Skip: SkipText}, {Cosine: -1, Known: true}, {Cosine: .2, Known: true}, {Cosine: 1, Known: true},
	}).Draw(t, "another taste")
	other := s.decide()
	if other.Facts.Taste != s.score || !s.score.Known && other.Facts.TasteUsed {
		t.Fatalf("the record says %+v, used %t, of %+v", other.Facts.Taste, other.Facts.TasteUsed, s.score)
	}
	if r.Scored != other.Scored {
		t.Fatalf("scored %t with %+v, %t with %+v", r.Scored, r.Facts.Taste, other.Scored, s.score)
	}
	if r.Scored {
		h.scored++
		if r.Outcome != other.Outcome {
			h.moved++
		}
		return
	}
	other.Facts.Taste = r.Facts.Taste
	if !reflect.DeepEqual(*r, other) {
		t.Fatalf("found %+v\nwith another taste %+v", *r, other)
	}
}

// Promise(notify-worker/taste): Taste of any size changes no other stage: mutes, duplicates, rules,
// caps, cooldowns, quiet hours and expiry decide as without it.
func TestTasteMovesNoOtherStage(t *testing.T) {
	scored, moved := 0, 0
	for round := 0; round < 10 && moved == 0; round++ { // one round nearly always moves some
		rapid.Check(t, func(t *rapid.T) {
			h := drawHistory(t)
			scored, moved = scored+h.scored, moved+h.moved
		})
	}
	t.Logf("%d decisions by score, another taste changes %d", scored, moved)
	if scored == 0 || moved == 0 {
		t.Errorf("%d decisions by score, another taste changes %d: the draw is lopsided", scored, moved)
	}
}

// Each reason for an absent taste has a sentence, and a record keeps it through JSON.
func TestSkipsAreToldAndKept(t *testing.T) {
	for _, skip := range Skips {
		if skip.text() == "" {
			t.Errorf("%s has no sentence", skip)
		}
		r := Record{Facts: Facts{Taste: Score{Skip: skip}}}
		b, err := json.Marshal(r)
		must.OK(t, err)
		var read Record
		if err := json.Unmarshal(b, &read); err != nil || read.Facts.Taste != r.Facts.Taste {
			t.Errorf("%v: %+v of %s", err, read.Facts.Taste, b)
		}
	}
}
