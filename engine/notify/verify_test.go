package notify

import (
	"testing"

	"github.com/google/uuid"
)

// A reservation of a state of version 2 has no channels and no source: the fold over its
// record has the source, and is no other reservation for that.
func TestStateOfBeforeLimitsIsVerified(t *testing.T) {
	const at = 1_780_000_000_000
	var folded State
	for i := range 3 {
		r := Record{
			EventID: uuid.UUID{1, byte(i)}, Type: Update, Source: "shop", Outcome: Later, Reasons: []string{ReasonCap1H},
			DecidedAt: at, DeferUntil: at + 1000, Facts: Facts{Horizon: MaxHorizon, Reserved: true},
		}
		folded.Fold(&r)
	}
	stored := folded.Clone()
	for i := range stored.Reserved[:2] { // the third one is of this version
		r := &stored.Reserved[i]
		r.Sent = Sent{At: r.At, Type: r.Type}
	}
	if differences := stored.Differences(&folded, 0); len(differences) > 0 {
		t.Errorf("after an upgrade: %q", differences)
	}
	for name, change := range map[string]func(*Reservation){
		"another source": func(r *Reservation) { r.Source++ },
		"another time":   func(r *Reservation) { r.At++ },
		"another type":   func(r *Reservation) { r.Type = Promo },
	} {
		changed := stored.Clone()
		change(&changed.Reserved[2])
		if changed.Differences(&folded, 0) == nil {
			t.Errorf("%s makes no difference", name)
		}
	}
}
