package eval

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// popularityDays is how many whole days before a question count for its popularity; where
// they have no event, the warm-up counts.
const popularityDays = 7

// popularity counts the candidates' events.
type popularity struct {
	warmUp []float64
	recent map[int64][]float64 // of the popularityDays before a day, by day
}

// countPopularity counts for the days that have questions.
func countPopularity(t *Timeline, users []user) popularity {
	p := popularity{warmUp: make([]float64, t.Candidates), recent: map[int64][]float64{}}
	byDay := map[int64]map[int32]float64{}
	for i := range users {
		for _, e := range users[i].events {
			day := dayOf(e.at)
			if e.at >= t.ChooseFrom {
				p.recent[day] = nil
			}
			if !t.candidate(e.thing) {
				continue
			}
			if e.at < t.ChooseFrom {
				p.warmUp[e.thing]++
			}
			if byDay[day] == nil {
				byDay[day] = map[int32]float64{}
			}
			byDay[day][e.thing]++
		}
	}
	for day := range p.recent {
		counts := make([]float64, t.Candidates)
		for before := day - popularityDays; before < day; before++ {
			for item, n := range byDay[before] {
				counts[item] += n
			}
		}
		if floats.Sum(counts) == 0 {
			counts = p.warmUp // a log of hours has no day before
		}
		p.recent[day] = counts
	}
	return p
}

// logs returns log(1 + n) of the counts.
func logs(counts []float64) []float64 {
	all := slices.Clone(counts)
	for i, n := range all {
		all[i] = math.Log1p(n)
	}
	return all
}
