package answers

import (
	"slices"
	"time"

	"keyfold/engine/profile/eval"
	"keyfold/service/profile/recommend"
)

// Report is what the API answered. Equal input gives equal bytes, but for the times that requests
// took.
type Report struct {
	Log        Log          `json:"log"`
	Vectors    string       `json:"vectors"`
	Second     string       `json:"second_vector,omitempty"` // its half-life
	Age        string       `json:"age"`                     // of the newest event in a profile, at least
	Targets    string       `json:"targets,omitempty"`       // the type of the events that are asked for, "" for all
	K          int          `json:"k"`
	Seed       int          `json:"seed"`
	Questions  int          `json:"questions"`
	Users      int          `json:"users"`
	Sample     float64      `json:"share_of_users"`
	Candidates int          `json:"candidates"`
	LeftOut    eval.LeftOut `json:"left_out"`

	Rows        []Row        `json:"rows"`
	Comparisons []Comparison `json:"comparisons"`
}

// Log describes the log.
type Log struct {
	Events   int       `json:"events"`
	Refused  int       `json:"refused_lines"`
	Repeats  int       `json:"repeated_ids"`
	Users    int       `json:"users"`
	Products int       `json:"products"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Test     time.Time `json:"test_from"`
}

// Row is a kind of request, or a baseline.
type Row struct {
	Name     string        `json:"name"`
	HR       float64       `json:"hr_at_k"`
	Interval eval.Interval `json:"hr_at_k_95"`
	NDCG     float64       `json:"ndcg_at_k"`
	MRR      float64       `json:"mrr_at_k"`
	Coverage float64       `json:"coverage,omitempty"` // share of the candidates that were ever shown; 0: not counted
	Endpoint *Endpoint     `json:"endpoint,omitempty"` // nil: a baseline
}

// Endpoint is what only requests have.
type Endpoint struct {
	ByProfile    int     `json:"answered_by_profile"`
	ByPopularity int     `json:"answered_by_popularity"`
	P50          float64 `json:"p50_ms"`
	P99          float64 `json:"p99_ms"`
	eval.Agreement
}

// Comparison is of a kind of request and a baseline, or the first kind of request. The intervals are of the differences, in 95
// of 100 draws of the users.
type Comparison struct {
	Endpoint string        `json:"endpoint"`
	Baseline string        `json:"baseline"`
	HR       eval.Interval `json:"hr_at_k_95"`
	NDCG     eval.Interval `json:"ndcg_at_k_95"`
	Verdict  string        `json:"verdict"` // of HR@K: better, not different or worse
}

// The verdicts.
const (
	Better       = "better"
	NotDifferent = "not different"
	Worse        = "worse"
)

// Row returns the row of that name, nil where there is none.
func (r *Report) Row(name string) *Row {
	if i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Name == name }); i >= 0 {
		return &r.Rows[i]
	}
	return nil
}

func report(in *Input, o Options, t *eval.Timeline, answered []*endpoint, main, neighbours *eval.Result) *Report {
	r := &Report{
		Log: Log{
			Events: t.Events, Refused: in.Refused, Repeats: t.Repeated, Users: t.People, Products: len(in.Products),
			First: t.First.Time(), Last: t.Last.Time(), Test: t.TestFrom.Time(),
		},
		Vectors: in.Vectors, Age: o.Age.String(), K: o.K, Seed: 1,
		Questions: main.Questions[1], Users: main.Users[1], Sample: t.Share, Candidates: t.Candidates, LeftOut: t.LeftOut,
	}
	if o.Targets != 0 {
		r.Targets = o.Targets.String()
	}
	if half := in.Laws.ShortHalfLife; half > 0 {
		r.Second = half.String()
	}
	for i, e := range answered {
		row := r.add(main, main, rowName(e.ask))
		row.Endpoint = e.figures(main.Agreement[i])
	}
	for _, name := range []string{eval.Popularity, LastEvent} {
		r.add(main, main, name)
	}
	for _, name := range []string{LastKNN, LongKNN} {
		r.add(neighbours, main, name)
	}
	r.add(main, main, eval.Random).Coverage = 0 // a random order has none
	for i, e := range answered {
		for _, baseline := range Compared {
			r.compare(rowName(e.ask), baseline, main, neighbours)
		}
		if i > 0 {
			r.compare(rowName(e.ask), rowName(answered[0].ask), main, neighbours)
		}
	}
	return r
}

// add adds a row of a result.
func (r *Report) add(from, main *eval.Result, name string) *Row {
	row := from.Row(name)
	at := slices.IndexFunc(from.Rows, func(other eval.Row) bool { return other.Name == name })
	r.Rows = append(r.Rows, Row{
		Name: name, HR: row.Test.HR, NDCG: row.Test.NDCG, MRR: row.Test.MRR, Coverage: row.Coverage,
		Interval: from.Intervals(main, eval.Popularity)[at].HR,
	})
	return &r.Rows[len(r.Rows)-1]
}

// compare compares a kind of request with a baseline.
func (r *Report) compare(endpoint, baseline string, main, neighbours *eval.Result) {
	base := main
	if main.Row(baseline) == nil {
		base = neighbours
	}
	at := slices.IndexFunc(main.Rows, func(row eval.Row) bool { return row.Name == endpoint })
	intervals := main.Intervals(base, baseline)[at]
	c := Comparison{Endpoint: endpoint, Baseline: baseline, HR: intervals.Difference, NDCG: intervals.NDCG, Verdict: NotDifferent}
	switch {
	case c.HR.Low > 0:
		c.Verdict = Better
	case c.HR.High < 0:
		c.Verdict = Worse
	}
	r.Comparisons = append(r.Comparisons, c)
}

func (e *endpoint) figures(a eval.Agreement) *Endpoint {
	slices.Sort(e.took)
	return &Endpoint{
		ByProfile: e.byBasis[recommend.ByProfile], ByPopularity: e.byBasis[recommend.ByPopularity],
		P50: quantile(e.took, 0.5), P99: quantile(e.took, 0.99), Agreement: a,
	}
}
