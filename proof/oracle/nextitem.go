package oracle

import (
	"math"
	"slices"
	"strings"

	"keyfold/engine/profile"
)

// NextItem asks a log for each user's next new product by the plainest loops there are:
// for every question it folds all vectors anew and sorts all candidates. What
// engine/profile/eval does fast is compared with it.
type NextItem struct {
	Events []profile.Event
	Vector func(product int32, phrase string) []float32 // nil: none
	Known  func(product int32) bool                     // it is in the catalogue

	WarmUp, Choose float64 // shares of the events
	Repeats        bool
	Cutoff         int

	// Visible reports whether a profile of the instant now holds the i-th of the
	// user's events, given all their times in milliseconds.
	Visible func(times []int64, i int, now int64) bool
	// Score returns what scores a candidate by the user's visible events with a vector.
	Score func(events []Weighted) func(candidate []float64) float64
	Asked func(user int32) bool // nil: all users

	units map[thing][]float64 // those that were computed
}

type thing struct {
	product int32
	phrase  string
}

// Weighted is an event in the profile.
type Weighted struct {
	At     int64
	Type   profile.EventType
	Vector []float64 // of unit length
}

// Metrics are the means over the questions of the part to test by.
type Metrics struct {
	Questions, Users              int
	HR, NDCG, MRR, HR100, OfUsers float64
}

// Answer asks all questions.
func (n NextItem) Answer() (m Metrics) {
	n.units = map[thing][]float64{}
	events := n.ordered()
	warm := int64(events[int(float64(len(events))*n.WarmUp)].OccurredAt)
	test := int64(events[int(float64(len(events))*(n.WarmUp+n.Choose))].OccurredAt)
	var candidates []int32
	for _, e := range events {
		if int64(e.OccurredAt) < warm && e.ProductID != 0 && n.Known(e.ProductID) && !slices.Contains(candidates, e.ProductID) {
			candidates = append(candidates, e.ProductID)
		}
	}
	var users []int32
	of := map[int32][]profile.Event{}
	for _, e := range events {
		if of[e.UserID] == nil {
			users = append(users, e.UserID)
		}
		of[e.UserID] = append(of[e.UserID], e)
	}
	for _, u := range users {
		if n.Asked != nil && !n.Asked(u) {
			continue
		}
		before := m
		for i := range of[u] {
			n.question(&m, events, of[u], i, warm, test, candidates)
		}
		if asked := m.Questions - before.Questions; asked > 0 {
			m.Users++
			m.OfUsers += (m.HR - before.HR) / float64(asked)
		}
	}
	q := float64(m.Questions)
	m.HR, m.NDCG, m.MRR, m.HR100, m.OfUsers = m.HR/q, m.NDCG/q, m.MRR/q, m.HR100/q, m.OfUsers/float64(m.Users)
	return m
}

// ordered returns the events as they are folded, each id of a user once.
func (n NextItem) ordered() (all []profile.Event) {
	sorted := slices.Clone(n.Events)
	slices.SortStableFunc(sorted, func(a, b profile.Event) int {
		if a.OccurredAt != b.OccurredAt {
			return int(max(-1, min(1, a.OccurredAt-b.OccurredAt)))
		}
		return strings.Compare(a.MessageID, b.MessageID)
	})
	type key struct {
		user int32
		id   string
	}
	met := map[key]bool{}
	for _, e := range sorted {
		if k := (key{e.UserID, e.MessageID}); !met[k] {
			met[k] = true
			all = append(all, e)
		}
	}
	return all
}

func (n NextItem) question(m *Metrics, all, events []profile.Event, i int, warm, test int64, candidates []int32) {
	e := events[i]
	now := int64(e.OccurredAt)
	if now < test || !slices.Contains(candidates, e.ProductID) {
		return
	}
	var times []int64
	older, last := 0, int32(0)
	met := map[int32]bool{}
	for j, o := range events {
		times = append(times, int64(o.OccurredAt))
		if int64(o.OccurredAt) >= now {
			if j < i && o.ProductID == e.ProductID && n.isQuestion(o, met, last) {
				return // asked of this instant already
			}
			continue
		}
		older++
		met[o.ProductID] = true
		if o.ProductID != 0 {
			last = o.ProductID
		}
	}
	if older == 0 || !n.isQuestion(e, met, last) {
		return
	}
	var folded []Weighted
	for j, o := range events[:older] {
		if v := n.unit(o.ProductID, o.Phrase); v != nil && n.Visible(times, j, now) {
			folded = append(folded, Weighted{int64(o.OccurredAt), o.Type, v})
		}
	}
	if n.Repeats {
		met = nil
	}
	n.add(m, n.scores(all, folded, candidates, warm, now), slices.Index(candidates, e.ProductID), func(c int) bool { return met[candidates[c]] })
}

func (n NextItem) isQuestion(e profile.Event, met map[int32]bool, last int32) bool {
	if n.Repeats {
		return e.ProductID != last
	}
	return !met[e.ProductID]
}

// scores are those of all candidates: of who has no profile, how many events each had in
// the seven days before the day, or in the warm-up where there were none.
func (n NextItem) scores(all []profile.Event, folded []Weighted, candidates []int32, warm, now int64) (scores []float64) {
	if len(folded) == 0 {
		const day = 24 * 3600 * 1000
		scores = counts(all, candidates, func(at int64) bool {
			before := floorDiv(now, day) - floorDiv(at, day)
			return before >= 1 && before <= 7
		})
		if slices.Max(scores) == 0 {
			scores = counts(all, candidates, func(at int64) bool { return at < warm })
		}
		return scores
	}
	scoreOf := n.Score(folded)
	for _, c := range candidates {
		score := -math.MaxFloat64
		if v := n.unit(c, ""); v != nil {
			score = scoreOf(v)
		}
		scores = append(scores, score)
	}
	return scores
}

// counts are how many events of the time that is meant each candidate has.
func counts(all []profile.Event, candidates []int32, meant func(at int64) bool) (scores []float64) {
	of := map[int32]float64{}
	for _, e := range all {
		if meant(int64(e.OccurredAt)) {
			of[e.ProductID]++
		}
	}
	for _, c := range candidates {
		scores = append(scores, of[c])
	}
	return scores
}

func floorDiv(a, b int64) int64 { return int64(math.Floor(float64(a) / float64(b))) }

// add puts the answer among the candidates: places it shares count as their mean.
func (n NextItem) add(m *Metrics, scores []float64, answer int, left func(int) bool) {
	first, shared := 1, 0
	for c, score := range scores {
		if c != answer && left(c) {
			continue
		}
		near := 1e-9 * max(1, math.Abs(score))
		if score > scores[answer]+near {
			first++
		} else if score >= scores[answer]-near {
			shared++
		}
	}
	m.Questions++
	for place := first; place < first+shared; place++ {
		p := 1 / float64(shared)
		if place <= n.Cutoff {
			m.HR += p
			m.NDCG += p / math.Log2(float64(place)+1)
		}
		if place <= 100 {
			m.HR100 += p
			m.MRR += p / float64(place)
		}
	}
}

func (n NextItem) unit(product int32, phrase string) []float64 {
	if product != 0 && !n.Known(product) {
		return nil
	}
	key := thing{product, phrase}
	unit, met := n.units[key]
	if v := n.Vector(product, phrase); !met && slices.ContainsFunc(v, func(x float32) bool { return x != 0 }) {
		wide := make([]float64, len(v))
		for i, x := range v {
			wide[i] = float64(x)
		}
		unit = Unit(wide)
	}
	n.units[key] = unit
	return unit
}

// Sum returns the sum of the events at weight x 2^(-age/halfLife), the age counted in
// days from the newest one; halfLife 0 takes the newest instant only, +Inf all events
// alike.
func Sum(events []Weighted, weight func(profile.EventType) float64, halfLife float64) []float64 {
	sum := make([]float64, len(events[0].Vector))
	newest := events[len(events)-1].At
	for _, e := range events {
		days := float64(newest-e.At) / (24 * 3600 * 1000)
		c := weight(e.Type)
		switch {
		case halfLife == 0 && days > 0:
			c = 0
		case halfLife > 0:
			c *= math.Exp2(-days / halfLife)
		}
		for i, x := range e.Vector {
			sum[i] += c * x
		}
	}
	return sum
}

// Unit returns a vector by its length.
func Unit(v []float64) []float64 {
	var square float64
	for _, x := range v {
		square += x * x
	}
	unit := make([]float64, len(v))
	for i, x := range v {
		unit[i] = x / math.Sqrt(square)
	}
	return unit
}
