package eval

import (
	"slices"

	"keyfold/engine"
)

// Question is one of a timeline, for a caller that has it answered elsewhere.
type Question struct {
	User    int32
	At      engine.Millis
	Product int32 // what is asked for
}

// Asked lists the questions, by user and time; of those with a horizon, the first product. The
// lists of [Given] are in this order.
func (t *Timeline) Asked() (all []Question) {
	for i := range t.users {
		for _, q := range t.users[i].questions {
			all = append(all, Question{t.users[i].id, q.at, t.Things[q.items[0]].Product})
		}
	}
	return all
}

// Given is a row whose answers were made elsewhere: for each question the products that were
// shown, the first one first. They are counted as they are: where equal scores were put into an
// order, it is that order.
type Given struct {
	Name  string
	Shown [][]int32
	// Like names a setting or a mix whose answers these must be. Where the user has a profile,
	// each is compared with it. "": none.
	Like string
}

// alike is how far the scores of two products may be apart, as a share of the largest that there
// can be, for a [Given] row to have them in either order: it may come of vectors of float32.
const alike = 2e-6

// numberQuestions notes the place of each user's first question among all.
func (p *pass) numberQuestions() {
	n := 0
	for i := range p.users {
		p.firstQuestion = append(p.firstQuestion, n)
		n += len(p.users[i].questions)
	}
}

// given scores the rows that were answered elsewhere, from an arm on.
func (w *worker) given(arm int, q *question) {
	for i := range w.Given {
		shown := w.Given[i].Shown[w.question]
		var total tally
		for _, item := range q.items {
			t := w.of(w.placeOf(item, shown), 1)
			total.add(&t, 1/float64(len(q.items)))
		}
		w.answer.add(arm+i, q, &total)
		if w.covered == nil || !q.test {
			continue
		}
		for _, id := range shown[:min(len(shown), w.cutoff)] {
			if j, is := w.byProduct[id]; is {
				w.covered[arm+i][j] = true
			}
		}
	}
}

// placeOf returns how many products are shown before an item, as many as any metric looks at
// where it is not shown.
func (w *worker) placeOf(item int32, shown []int32) int {
	if place := slices.Index(shown, w.Things[item].Product); place >= 0 {
		return place
	}
	return len(w.inverse)
}

// compareGiven compares what was answered elsewhere with the row that it must be like: the item
// is shown at one of the places that its score allows.
func (w *worker) compareGiven(name string, q *question, scores []float64, tolerance float64) {
	for i := range w.Given {
		if w.Given[i].Like != name {
			continue
		}
		shown := w.Given[i].Shown[w.question]
		above, equal := rank(scores, q.items[0], w.met, tolerance*alike/tie)
		place := slices.Index(shown, w.Things[q.items[0]].Product)
		if place < 0 {
			place = max(above, len(shown))
		}
		w.agreement[i].Compared++
		if place < above || place >= above+equal {
			w.agreement[i].Differ++
		}
	}
}

// Agreement is of how many answers of a [Given] row the place of the item was compared, and how
// many have it where its score does not allow it.
type Agreement struct {
	Compared int `json:"compared"`
	Differ   int `json:"differ"`
}
