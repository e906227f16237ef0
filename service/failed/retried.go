package failed

// Retried is what became of giving letters another try. A letter is in at most one of the counts.
type Retried struct {
	Replayed  int `json:"replayed"`
	Malformed int `json:"skipped_malformed"`
	Foreign   int `json:"skipped_foreign"`
	Failed    int `json:"failed"`
	Horizon   int `json:"-"` // of the replayed ones: past the horizon
}

// Reasons are letters by their reasons.
type Reasons map[string]*ByReason

// ByReason is what became of the letters of one reason.
type ByReason struct{ Done, Skipped int64 }

// Met returns how many letters were met.
func (r *Retried) Met() int { return r.Replayed + r.Malformed + r.Foreign + r.Failed }

// Of returns the counts of a reason.
func (r Reasons) Of(reason string) *ByReason {
	if _, known := r[reason]; !known && len(r) >= maxKinds {
		reason = others
	}
	if r[reason] == nil {
		r[reason] = &ByReason{}
	}
	return r[reason]
}
