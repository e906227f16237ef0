package notify

import (
	"encoding/json"
	"math"

	"keyfold/engine"
)

// Responses are what is known of how a user responds: of each type how many notifications
// were delivered and how many of them the user opened or clicked, and at which hours. All are
// weighed by age: half as much after each [ResponseHalfLife].
type Responses struct {
	At    engine.Millis // as of which the weights are
	Types [typeCount]Response
	Hours [24]float64 // of what was opened, by the hour in UTC
}

// Response is what is known of one type.
type Response struct {
	Delivered, Opened float64
}

// ResponseHalfLife is how long it takes until a response counts half.
const ResponseHalfLife = engine.Millis(30 * 24 * 60 * 60 * 1000)

// decayed returns the responses as of a later instant.
func (r *Responses) decayed(at engine.Millis) *Responses {
	d := *r
	if at <= r.At {
		return &d
	}
	f := math.Exp2(-float64(at-r.At) / float64(ResponseHalfLife))
	if r.At == 0 {
		f = 0
	}
	d.At = at
	for t := range d.Types {
		d.Types[t].Delivered, d.Types[t].Opened = f*d.Types[t].Delivered, f*d.Types[t].Opened
	}
	for h := range d.Hours {
		d.Hours[h] *= f
	}
	return &d
}

// Take adds what a report has changed in a delivery of a type.
func (r *Responses) Take(t EventType, before, after *Delivery) {
	delivered := before.Status != Delivered && after.Status == Delivered
	opened := before.opened() == 0 && after.opened() != 0
	at := max(r.At, after.At, after.opened())
	if !delivered && !opened {
		return
	}
	*r = *r.decayed(at)
	if delivered {
		r.Types[t].Delivered++
	}
	if opened {
		r.Types[t].Opened++
		r.Hours[after.opened().Time().UTC().Hour()]++
	}
}

// opened returns when the user opened or clicked, whichever was first; 0: neither is reported.
func (d *Delivery) opened() engine.Millis {
	if d.Opened == 0 || d.Clicked != 0 && d.Clicked < d.Opened {
		return d.Clicked
	}
	return d.Opened
}

// Of returns what a decision reads of the responses: those of a type, and the hour at which
// the user is likely to open; zero: nothing is known.
func (r *Responses) Of(t EventType, now engine.Millis) Habit {
	if r == nil || r.At == 0 {
		return Habit{}
	}
	d := r.decayed(now)
	h := Habit{Delivered: d.Types[t].Delivered, Opened: d.Types[t].Opened, Hour: -1}
	total, best := 0.0, 0.0
	for hour := range d.Hours {
		total += d.Hours[hour]
		// An hour counts with its neighbours: habits are not that exact.
		if sum := d.Hours[(hour+23)%24] + 2*d.Hours[hour] + d.Hours[(hour+1)%24]; sum > best {
			best, h.Hour = sum, hour
		}
	}
	if total < minOpened {
		h.Hour = -1
	}
	return h
}

// minOpened is how much a user must have opened before an hour of it says anything.
const minOpened = 5

// Habit is what a decision reads of a user's responses.
type Habit struct {
	Delivered float64 `json:"delivered"`
	Opened    float64 `json:"opened"`
	Hour      int     `json:"hour"` // in UTC, at which the user is likely to open; -1: not known
}

// priorWeight is how many deliveries the usual rate of a type counts as.
const priorWeight = 10

// Rate returns the share of notifications of a type that the user opens, with the type's
// usual rate as the prior: (opened + prior x 10) / (delivered + 10).
func (h *Habit) Rate(usual float64) float64 {
	return (h.Opened + usual*priorWeight) / (h.Delivered + priorWeight)
}

// Lift returns how much more or less than usual the user opens, (rate - usual) / (rate +
// usual): 0 for the usual rate, towards 1 for a user who opens more, towards -1 for one who
// opens less.
func (h *Habit) Lift(usual float64) float64 {
	rate := h.Rate(usual)
	if rate+usual <= 0 {
		return 0
	}
	return (rate - usual) / (rate + usual)
}

// responsesJSON is the stored form.
type responsesJSON struct {
	At    engine.Millis            `json:"at"`
	Types map[EventType][2]float64 `json:"types,omitempty"`
	Hours [24]float64              `json:"hours"`
}

// MarshalJSON returns {"at":1773144000000,"types":{"PROMO":[12.5,3]},"hours":[...]}: of each
// type how many were delivered and opened.
func (r Responses) MarshalJSON() ([]byte, error) {
	form := responsesJSON{At: r.At, Hours: r.Hours, Types: map[EventType][2]float64{}}
	for _, t := range EventTypes {
		if r.Types[t] != (Response{}) {
			form.Types[t] = [2]float64{r.Types[t].Delivered, r.Types[t].Opened}
		}
	}
	return json.Marshal(form)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (r *Responses) UnmarshalJSON(b []byte) error {
	var form responsesJSON
	if err := json.Unmarshal(b, &form); err != nil {
		return err
	}
	*r = Responses{At: form.At, Hours: form.Hours}
	for t, of := range form.Types {
		r.Types[t] = Response{of[0], of[1]}
	}
	return nil
}
