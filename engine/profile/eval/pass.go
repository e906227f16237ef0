package eval

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/sourcegraph/conc/pool"

	"keyfold/engine"
)

// pass answers the questions of one user after another.
type pass struct {
	*Timeline
	*Plan
	*metrics
	vectors    Vectors // nil where the space has none
	recentLogs map[int64][]float64
	arms       int
	checkEvery int
	// Of rows that were answered elsewhere:
	firstQuestion []int           // by user: the number of the first one among all questions
	byProduct     map[int32]int32 // candidates
}

// Run has every row of a plan answer every question. Equal input gives equal bytes.
// The errors are that ctx has ended, that the slow way differs, and that the plan needs
// vectors which its space does not have.
func (t *Timeline) Run(ctx context.Context, plan Plan) (*Result, error) {
	p := &pass{Timeline: t, Plan: &plan, metrics: newMetrics(plan.Cutoff, cmp.Or(plan.Far, farCutoff)), arms: len(plan.names())}
	p.vectors, _ = plan.Space.(Vectors)
	if p.vectors == nil && slices.Contains(plan.lengths(), true) {
		return nil, errors.New("the plan goes by lengths of vectors, and its space has none")
	}
	if len(plan.Blends) > 0 {
		p.recentLogs = map[int64][]float64{}
		for day, counts := range t.popularity.recent {
			p.recentLogs[day] = logs(counts)
		}
	}
	if plan.Check > 0 && p.vectors != nil {
		p.checkEvery = max(1, (t.Questions[0]+t.Questions[1])/plan.Check)
	}
	if len(plan.Given) > 0 {
		p.numberQuestions()
		p.byProduct = map[int32]int32{}
		for j := range t.Candidates {
			p.byProduct[t.Things[j].Product] = int32(j)
		}
	}
	result := newResult(p)
	workers := make([]*worker, runtime.GOMAXPROCS(0))
	for i := range workers {
		workers[i] = newWorker(p)
	}
	const chunk = 256 // users whose answers are kept until they are added up, in the users' order
	answers := make([]answer, chunk)
	for first := 0; first < len(t.users); first += chunk {
		users := t.users[first:min(first+chunk, len(t.users))]
		var next atomic.Int64
		group := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError()
		for _, w := range workers {
			group.Go(func(ctx context.Context) error {
				for i := next.Add(1) - 1; int(i) < len(users) && ctx.Err() == nil; i = next.Add(1) - 1 {
					if err := w.user(&users[i], first+int(i), &answers[i]); err != nil {
						return err
					}
				}
				return ctx.Err()
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		for i := range users {
			result.add(&answers[i])
		}
	}
	result.finish(p, workers)
	return result, nil
}

// worker answers with space of its own.
type worker struct {
	*pass
	sums    []*sum
	mixed   []float64
	covered [][]bool // by row and candidate
	best    nearest

	// Of the user at work:
	answer  *answer
	met     []int32
	isMet   []bool
	from    []engine.Millis
	folded  int // events folded or passed over
	usable  int // of those, events with a vector
	last    engine.Millis
	noted   int // events whose items are in met
	checked int

	question  int         // its number, where rows were answered elsewhere
	agreement []Agreement // by row that was
}

func newWorker(p *pass) *worker {
	w := &worker{pass: p, mixed: make([]float64, p.Candidates), isMet: make([]bool, p.Candidates), agreement: make([]Agreement, len(p.Given))}
	lengths := p.lengths()
	for i := range p.Settings {
		var space Vectors
		if lengths[i] {
			space = p.vectors
		}
		w.sums = append(w.sums, newSum(&p.Settings[i], space, p.Candidates))
	}
	if p.Coverage {
		for range p.arms {
			w.covered = append(w.covered, make([]bool, p.Candidates))
		}
	}
	return w
}

// user answers a user's questions.
func (w *worker) user(u *user, number int, into *answer) error {
	into.reset(w.arms)
	w.answer = into
	for _, j := range w.met {
		w.isMet[j] = false
	}
	w.met, w.folded, w.usable, w.noted = w.met[:0], 0, 0, 0
	for _, s := range w.sums {
		s.reset()
	}
	w.from = append(w.from[:0], make([]engine.Millis, len(u.events))...)
	into.writes = w.Visibility.visible(u.events, w.from)
	into.events = len(u.events)
	for i := range u.questions {
		q := &u.questions[i]
		if p := w.firstQuestion; p != nil {
			w.question = p[number] + i
		}
		w.note(u, q)
		for ; w.folded < int(q.before) && w.from[w.folded] <= q.at; w.folded++ {
			w.fold(&u.events[w.folded])
		}
		w.rankAll(q)
		if w.checkEvery > 0 && (number*31+i)%w.checkEvery == 0 {
			if err := w.check(u, q); err != nil {
				return err
			}
		}
	}
	return nil
}

// note has the ranking leave out what the user met before the question.
func (w *worker) note(u *user, q *question) {
	if w.options.Repeats {
		return
	}
	for ; w.noted < int(q.before); w.noted++ {
		if item := u.events[w.noted].thing; w.candidate(item) && !w.isMet[item] {
			w.isMet[item] = true
			w.met = append(w.met, item)
		}
	}
}

func (w *worker) fold(e *event) {
	if e.thing < 0 {
		return
	}
	row := w.Space.Row(e.thing)
	if row == nil {
		return
	}
	w.usable++
	w.last = e.at
	for _, s := range w.sums {
		s.fold(e, row)
	}
}

// rankAll ranks a question's items by every row of the plan.
func (w *worker) rankAll(q *question) {
	w.answer.asked(w, q)
	recent := w.popularity.recent[dayOf(q.at)]
	arm := 0
	if w.Baselines {
		w.random(q)
		w.score(1, q, w.popularity.warmUp, tie)
		w.score(2, q, recent, tie)
		arm = 3
	}
	w.given(arm, q)
	arm += len(w.Given)
	if w.usable == 0 { // a user without a profile gets what is popular
		for ; arm < w.arms; arm++ {
			w.score(arm, q, recent, tie)
		}
		return
	}
	for _, s := range w.sums {
		w.score(arm, q, s.scores, s.tolerance())
		w.compareGiven(s.Name, q, s.scores, s.tolerance())
		arm++
	}
	for _, m := range w.Mixes {
		short, long := m.Share*w.sums[m.Short].toUnit(), (1-m.Share)*w.sums[m.Long].toUnit()
		for j, x := range w.sums[m.Long].scores {
			w.mixed[j] = short*w.sums[m.Short].scores[j] + long*x
		}
		w.score(arm, q, w.mixed, tie)
		w.compareGiven(m.Name, q, w.mixed, tie)
		arm++
	}
	for _, b := range w.Blends {
		unit, popular := w.sums[b.Setting].toUnit(), w.recentLogs[dayOf(q.at)]
		for j, x := range w.sums[b.Setting].scores {
			w.mixed[j] = unit*x + b.Popularity*popular[j]
		}
		w.score(arm, q, w.mixed, tie)
		arm++
	}
}

// random adds the expectation of a random order.
func (w *worker) random(q *question) {
	t := w.of(0, w.Candidates-len(w.met))
	w.answer.add(0, q, &t)
}

// score ranks a question's items by scores.
func (w *worker) score(arm int, q *question, scores []float64, tolerance float64) {
	var total tally
	for _, item := range q.items {
		t := w.of(rank(scores, item, w.met, tolerance))
		total.add(&t, 1/float64(len(q.items)))
	}
	if len(q.items) > w.cutoff { // the best that a recall at K can be is 1
		total.hits *= float64(len(q.items)) / float64(w.cutoff)
	}
	w.answer.add(arm, q, &total)
	if w.covered != nil && q.test {
		w.best.of(scores, w.isMet, w.cutoff)
		for _, j := range w.best.items {
			w.covered[arm][j] = true
		}
	}
}

// nearest holds the candidates with the highest scores.
type nearest struct {
	items  []int32
	scores []float64
}

// of finds the k highest scores of candidates that are not met, equal ones by their order.
func (n *nearest) of(scores []float64, met []bool, k int) {
	n.items, n.scores = n.items[:0], n.scores[:0]
	for j, x := range scores {
		full := len(n.items) == k
		if full && x <= n.scores[k-1] || met[j] {
			continue
		}
		if !full {
			n.items, n.scores = append(n.items, 0), append(n.scores, 0)
		}
		at := len(n.items) - 1
		for ; at > 0 && n.scores[at-1] < x; at-- {
			n.items[at], n.scores[at] = n.items[at-1], n.scores[at-1]
		}
		n.items[at], n.scores[at] = int32(j), x
	}
}
