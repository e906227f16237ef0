package eval

import (
	"math/rand/v2"
	"slices"
)

// Draws is how often the users are drawn anew for an interval.
const Draws = 300

// Interval holds 95 of 100 draws.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Intervals are those of a row's HR@K in the part to test by, and of the differences of HR@K
// and nDCG@K to those of another row of the same draws.
type Intervals struct {
	HR         Interval
	Difference Interval
	NDCG       Interval // of the difference
}

// Intervals draws the users of the part to test by anew, with replacement, and returns
// each row's intervals against the rows of results named so in the same place. The
// results must be of one timeline. The seed is 1.
//
// Source: the paired bootstrap, by user because one user's questions are alike (Efron
// and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13).
func (r *Result) Intervals(base *Result, against string) []Intervals {
	reference := slices.IndexFunc(base.Rows, func(row Row) bool { return row.Name == against })
	if reference < 0 || len(r.asked) == 0 || len(base.asked) != len(r.asked) {
		return make([]Intervals, len(r.Rows))
	}
	ratios, differences, gains := draws(len(r.Rows)), draws(len(r.Rows)), draws(len(r.Rows))
	random := rand.New(rand.NewPCG(1, 0))
	times := make([]float64, len(r.asked)) // how often each user is drawn
	for draw := range Draws {
		clear(times)
		for range times {
			times[random.IntN(len(times))]++
		}
		n := weighted(times, r.asked)
		of, gain := weighted(times, base.hits[reference])/n, weighted(times, base.gains[reference])/n
		for row := range r.Rows {
			hr := weighted(times, r.hits[row]) / n
			ratios[row][draw], differences[row][draw], gains[row][draw] = hr, hr-of, weighted(times, r.gains[row])/n-gain
		}
	}
	all := make([]Intervals, len(r.Rows))
	for row := range all {
		all[row] = Intervals{HR: interval(ratios[row]), Difference: interval(differences[row]), NDCG: interval(gains[row])}
	}
	return all
}

func draws(rows int) [][]float64 {
	all := make([][]float64, rows)
	for i := range all {
		all[i] = make([]float64, Draws)
	}
	return all
}

func weighted(times, of []float64) (sum float64) {
	for i, n := range times {
		sum += n * of[i]
	}
	return sum
}

func interval(of []float64) Interval {
	slices.Sort(of)
	at := func(p float64) float64 { return of[int(p*float64(len(of)-1))] }
	return Interval{at(0.025), at(0.975)}
}
