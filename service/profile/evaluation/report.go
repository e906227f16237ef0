package evaluation

import (
	"time"

	"keyfold/engine/profile/eval"
)

// Report is what an evaluation found. Equal input gives equal bytes.
type Report struct {
	Log        Log          `json:"log"`
	Vectors    string       `json:"vectors"`
	Held       string       `json:"profile_holds"` // what a profile holds when it is asked
	Asked      string       `json:"asked"`         // what is to be found
	Cutoff     int          `json:"k"`
	Seed       int          `json:"seed"`
	Questions  int          `json:"questions"` // of the part to test by
	Users      int          `json:"users"`     // who are asked there
	Sample     float64      `json:"share_of_users"`
	Candidates int          `json:"candidates"`
	NoProfile  int          `json:"answered_by_popularity"` // for lack of a profile
	LeftOut    eval.LeftOut `json:"left_out"`
	Checked    int          `json:"checked_by_the_slow_way"`
	Current    string       `json:"current_setting"` // the name of its row

	Rows    []Row     `json:"rows"`
	Groups  []Group   `json:"groups"`
	Mix     string    `json:"mix,omitempty"` // what ages and windows are shown for beside the current setting
	Ages    []Age     `json:"ages,omitempty"`
	Windows []Window  `json:"windows,omitempty"`
	Weights []float64 `json:"best_weights,omitempty"` // by event type, in the order of the types

	Verdicts []Verdict `json:"verdicts,omitempty"`
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
	Choose   time.Time `json:"warm_up_until"`
	Test     time.Time `json:"test_from"`
}

// Row is a baseline, a setting, or a mix of two.
type Row struct {
	Name         string        `json:"name"`
	Kind         string        `json:"kind"` // baseline, half-life, history, weights, mix or popularity
	HalfLifeDays float64       `json:"half_life_days,omitempty"`
	Mix          float64       `json:"mix,omitempty"`
	Choose       eval.Metrics  `json:"choose"`
	Test         eval.Metrics  `json:"test"`
	Interval     eval.Interval `json:"interval_95"`   // of hr_at_k in the test part
	Difference   eval.Interval `json:"difference_95"` // of hr_at_k to the current setting's
	Coverage     float64       `json:"coverage"`
	Groups       []float64     `json:"hr_at_k_by_group"`
	TooShort     bool          `json:"log_too_short,omitempty"` // for the half-life
}

// Group is a kind of questions and how many there are of it.
type Group struct {
	By        string `json:"by"`
	Name      string `json:"name"`
	Questions int    `json:"questions"`
}

// Age is how old the newest event in a profile is.
type Age struct {
	Name    string        `json:"age"`
	Seconds float64       `json:"seconds"`                      // -1: made each night
	Current float64       `json:"current"`                      // HR@K of the current setting
	Band    eval.Interval `json:"current_95"`                   //
	Mixed   float64       `json:"with_second_vector,omitempty"` // of [Report.Mix]
}

// Window is a length of a worker's windows.
type Window struct {
	Name    string  `json:"window"`
	Gap     float64 `json:"gap_seconds"`
	Most    float64 `json:"most_seconds"`
	Writes  float64 `json:"writes_per_event"`
	Current float64 `json:"current"`
	Mixed   float64 `json:"with_second_vector,omitempty"`
}

// SecondVector is what a verdict is about that compares one vector with a mix of two.
const SecondVector = "second vector"

// Verdict says whether to change a setting.
type Verdict struct {
	What   string  `json:"what"`   // half-life, [SecondVector] or weights
	Best   string  `json:"best"`   // of the part to choose by
	Change bool    `json:"change"` // the part to test by supports it
	Gain   float64 `json:"gain"`   // of HR@K in the test part, as a share of the current one's
	Least  float64 `json:"gain_at_least"`
	Why    string  `json:"why"`
}

// Row returns the row of that name, nil where there is none.
func (r *Report) Row(name string) *Row {
	for i := range r.Rows {
		if r.Rows[i].Name == name {
			return &r.Rows[i]
		}
	}
	return nil
}
