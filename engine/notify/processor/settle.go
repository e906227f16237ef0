package processor

import (
	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// settleDecided settles a work whose change is written: each delivery with its own
// records.
func (f *flush) settleDecided(w *work, failed map[uuid.UUID]error) {
	for i := range w.deliveries {
		d := &w.deliveries[i]
		a := &w.answers[i]
		v := Verdict{Outcome: Decided}
		if len(a.records) == 0 && a.repeats.Outcome != 0 {
			v = Verdict{Outcome: Known, Key: a.repeats}
			v.refused(failed[notify.DispatchID(v.Key.EventID, v.Key.DigestID)])
			v.Key.Dispatched = v.Err == nil && v.Key.Outcome == notify.Now
		}
		for _, at := range a.records {
			r := w.change.Decided[at].Record
			v.Records = append(v.Records, r)
			v.refused(failed[notify.DispatchID(r.EventID, r.DigestID)])
		}
		f.settle(w, d, v)
	}
	w.deliveries, w.done = nil, true
}

// settleAgain settles a delivery whose recorded NOW was to be handed over again.
func (f *flush) settleAgain(r *resend, failed map[uuid.UUID]error) {
	v := Verdict{Outcome: Known, Key: r.keys[0]}
	for _, key := range r.keys {
		v.refused(failed[notify.DispatchID(key.EventID, key.DigestID)])
	}
	v.Key.Dispatched = v.Err == nil && len(r.gone) == 0
	f.markGone(r)
	f.settle(r.work, &r.delivery, v)
}

// refused notes why a hand-over failed; nil: it did not. The decision is stored: the
// delivery's next attempt, or a sweep, hands it over.
func (v *Verdict) refused(err error) {
	switch {
	case err == nil:
	case engine.KindOf(err) == engine.Configuration:
		v.Outcome, v.Err = Unsettled, err
	default:
		v.Outcome, v.Err = Retry, err
	}
}

// settle hands a verdict to the delivery's source, counts it and logs it.
func (f *flush) settle(w *work, d *Delivery, v Verdict) {
	f.stats.Outcomes[v.Outcome].Add(1)
	f.logVerdict(w, d, &v)
	if d.Settler != nil {
		d.Settler.Settle(v)
	}
}
