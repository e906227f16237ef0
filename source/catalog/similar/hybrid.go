package similar

import "keyfold/source/catalog/learned"

// Part is one of the two spaces of a [Hybrid].
type Part interface {
	Row(thing int32) []float64
	Has(thing int32) bool // whether it has a vector
	Dimensions() int
	Add(sum []float64, w float64, thing int32)
	Dot(sum []float64, thing int32) float64
}

// Hybrid is the space of vectors that are two unit vectors behind each other, each times its
// weight: that of a text, and a learned one. It is what [learned.Join] makes, without the
// vectors of all products twice.
type Hybrid struct {
	rows
	text, learned Part
	candidates    int
	weights       [][2]float64 // by thing; both 0: it has no vector
}

// NewHybrid joins two spaces of the same things and candidates.
func NewHybrid(text, behaviour Part, things, candidates int, share float64) *Hybrid {
	h := &Hybrid{newRows(), text, behaviour, candidates, make([][2]float64, things)}
	for i := range h.weights {
		a, b := learned.Weights(text.Has(int32(i)), behaviour.Has(int32(i)), share)
		h.weights[i] = [2]float64{a, b}
	}
	return h
}

// Dimensions is the vectors' length.
func (h *Hybrid) Dimensions() int { return h.text.Dimensions() + h.learned.Dimensions() }

// Row returns the cosines to the candidates, [behind] for one without a vector, which puts it
// behind all others.
func (h *Hybrid) Row(thing int32) []float64 {
	own := h.weights[thing]
	if own == ([2]float64{}) {
		return nil
	}
	return h.get(thing, func() []float64 {
		row := make([]float64, h.candidates)
		for part, space := range []Part{h.text, h.learned} {
			if own[part] == 0 {
				continue
			}
			for j, cosine := range space.Row(thing) {
				row[j] += own[part] * h.weights[j][part] * cosine
			}
		}
		for j := range row {
			if h.weights[j] == ([2]float64{}) {
				row[j] = behind
			}
		}
		return row
	})
}

// Add adds w times a thing's unit vector.
func (h *Hybrid) Add(sum []float64, w float64, thing int32) {
	at, own := h.text.Dimensions(), h.weights[thing]
	if own[0] != 0 {
		h.text.Add(sum[:at], w*own[0], thing)
	}
	if own[1] != 0 {
		h.learned.Add(sum[at:], w*own[1], thing)
	}
}

// Dot returns the product with a thing's unit vector.
func (h *Hybrid) Dot(sum []float64, thing int32) (dot float64) {
	at, own := h.text.Dimensions(), h.weights[thing]
	if own[0] != 0 {
		dot += own[0] * h.text.Dot(sum[:at], thing)
	}
	if own[1] != 0 {
		dot += own[1] * h.learned.Dot(sum[at:], thing)
	}
	return dot
}
