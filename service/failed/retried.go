package failed

// Retried is what became of giving letters another try. A letter is in at most one of the counts.
type Retried struct {
	Replayed  int `json:"replayed"`
	Malformed int `json:"skipped_malformed"`
	Foreign   int `json:"skipped_foreign"`
	Failed    int `json:"failed"`
	Horizon   int `json:"-"` // of the replayed ones: past the horizon
	Waiting   int `json:"-"` // letters when the pass began; 0: it did not begin

	Reasons map[string]*ByReason `json:"-"`
}

// ByReason is what became of the letters of one reason.
type ByReason struct{ Replayed, Skipped int }

// Met returns how many letters were met.
func (r *Retried) Met() int { return r.Replayed + r.Malformed + r.Foreign + r.Failed }

// Of returns the counts of a reason.
func (r *Retried) Of(reason string) *ByReason {
	if r.Reasons == nil {
		r.Reasons = map[string]*ByReason{}
	}
	if _, known := r.Reasons[reason]; !known && len(r.Reasons) >= maxKinds {
		reason = others
	}
	if r.Reasons[reason] == nil {
		r.Reasons[reason] = &ByReason{}
	}
	return r.Reasons[reason]
}
