package eval

import (
	"math"

	"keyfold/engine/profile"
)

// Space says how near things are to the candidates. Its methods are called from
// several goroutines.
type Space interface {
	// Row returns the similarity of a thing to each candidate, nil where the thing
	// is near to nothing. It is only read.
	Row(thing int32) []float64
}

// Vectors is a space whose similarities are cosines of vectors. Mixes, blends and
// [profile.UnitMass] need one, as they go by the length of a sum.
type Vectors interface {
	Space
	// Dimensions is the length of the vectors.
	Dimensions() int
	// Add adds w times a thing's unit vector to a sum.
	Add(sum []float64, w float64, thing int32)
	// Dot returns the product of a sum and a thing's unit vector.
	Dot(sum []float64, thing int32) float64
}

// Setting is a law of folding that answers the questions.
type Setting struct {
	Name    string
	Lambda  float64 // decay per day; +Inf: only the events of the newest instant
	History profile.History
	Weights profile.Weights
}

// HalfLife returns the setting's half-life in days: 0 for +Inf, +Inf for a lambda of 0.
func (s Setting) HalfLife() float64 {
	if math.IsInf(s.Lambda, 1) {
		return 0
	}
	return math.Ln2 / s.Lambda
}

// Lambda returns the decay per day of a half-life in days.
func Lambda(halfLife float64) float64 { return math.Ln2 / halfLife }

// Mix ranks by Share times the unit vector of one setting plus 1-Share times that of
// another, by their indexes.
type Mix struct {
	Name        string
	Short, Long int
	Share       float64
}

// Blend ranks by a setting's cosine plus Popularity times the logarithm of the
// candidate's recent popularity.
type Blend struct {
	Name       string
	Setting    int
	Popularity float64
}

// Plan is what one pass over the questions compares.
type Plan struct {
	Space      Space
	Visibility Visibility
	Settings   []Setting
	Mixes      []Mix
	Blends     []Blend
	Given      []Given
	Baselines  bool // the rows of [Random], [WarmUpPopularity] and [Popularity] come first
	Coverage   bool // count which candidates are ever among the first
	Cutoff     int  // K of HR@K and nDCG@K
	Far        int  // in place of the 100 of HR@100 and MRR@100; 0: 100
	Check      int  // of how many questions the profiles are folded by the slow way, too
}

// The rows of the baselines.
const (
	Random           = "random"
	WarmUpPopularity = "popularity of the warm-up"
	Popularity       = "popularity of 7 days"
)

func (p *Plan) names() (names []string) {
	if p.Baselines {
		names = []string{Random, WarmUpPopularity, Popularity}
	}
	for i := range p.Given {
		names = append(names, p.Given[i].Name)
	}
	for i := range p.Settings {
		names = append(names, p.Settings[i].Name)
	}
	for i := range p.Mixes {
		names = append(names, p.Mixes[i].Name)
	}
	for i := range p.Blends {
		names = append(names, p.Blends[i].Name)
	}
	return names
}

// lengths says of which settings the length of the sum is needed.
func (p *Plan) lengths() []bool {
	needed := make([]bool, len(p.Settings))
	for i := range p.Settings {
		needed[i] = p.Settings[i].History == profile.UnitMass
	}
	for _, m := range p.Mixes {
		needed[m.Short], needed[m.Long] = true, true
	}
	for _, b := range p.Blends {
		needed[b.Setting] = true
	}
	return needed
}
