package evaluation

import (
	"context"
	"fmt"
	"math"
	"slices"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/eval"
	"keyfold/source/catalog/similar"
)

// checkedQuestions is how many questions a run answers by the slow way, too.
const checkedQuestions = 200

// evaluation is one run.
type evaluation struct {
	Input
	Options
	*eval.Timeline
	space   eval.Space
	texts   eval.Space // of a hybrid; nil for other vectors
	current eval.Setting
	main    *eval.Result // the pass that the others are compared with
	report  *Report
	done    int // users answered, in all passes
	visible eval.Visibility
}

// Evaluate asks the log its questions.
func Evaluate(ctx context.Context, in Input, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	known := func(id int32) bool { _, known := in.Products[id]; return known }
	o.Against = in.Laws.Weights.Against()
	timeline, err := eval.New(in.Events, known, o.Options)
	if err != nil {
		return nil, err
	}
	if span := timeline.First.Days(timeline.Last); timeline.Questions[1] == 0 && o.Horizon > 0 && span*dayMillis < float64(o.Horizon) {
		return nil, fmt.Errorf("the log asks nothing: no %s follow the warm-up, as the log spans %s: give a shorter --horizon or a longer log",
			lengthOrZero(o.Horizon), lengthText(span))
	}
	if timeline.Questions[1] == 0 {
		return nil, fmt.Errorf("the log asks nothing: of %d product events after the warm-up %d are of products that the catalogue does not know, "+
			"%d of products without an event in the warm-up, %d are the first of their user, %d repeat what the user had met: give a longer log or its own catalogue",
			timeline.LeftOut.Products, timeline.LeftOut.Unknown, timeline.LeftOut.Cold, timeline.LeftOut.First, timeline.LeftOut.Met)
	}
	e := &evaluation{Input: in, Options: o, Timeline: timeline}
	e.Input.Events = nil // the timeline has them
	if e.space, err = e.makeSpace(ctx); err != nil {
		return nil, err
	}
	e.visible = eval.Visibility(in.Windows)
	if o.Age >= 0 {
		e.visible = eval.Age(o.Age.Milliseconds())
	}
	e.current = eval.Setting{Name: lengthText(math.Ln2 / in.Laws.Lambda), Lambda: in.Laws.Lambda, History: in.Laws.History, Weights: in.Laws.Weights}
	if !e.hasVectors() {
		e.current.History = profile.Mass // the other one needs vectors
	}
	return e.run(ctx)
}

// makeSpace makes the vectors.
func (e *evaluation) makeSpace(ctx context.Context) (eval.Space, error) {
	switch e.Options.Vectors {
	case Learned:
		return e.learn(ctx, similar.LearnedDimensions)
	case ItemKNN:
		return similar.NewNeighbours(e.Sessions(), e.Candidates), nil
	case Hybrid:
		of, err := e.learn(ctx, e.Hybrid.Components)
		if err != nil {
			return nil, err
		}
		texts, err := e.ofInput(ctx)
		if err != nil {
			return nil, err
		}
		e.texts = texts
		return similar.NewHybrid(texts, of, len(e.Things), e.Candidates, e.Hybrid.Share), nil
	}
	return e.ofInput(ctx)
}

// learn learns vectors from the warm-up.
func (e *evaluation) learn(ctx context.Context, components int) (*similar.Dense, error) {
	return similar.NewLearned(ctx, e.Sessions(), len(e.Things), e.Candidates, components)
}

// ofInput asks the input for its vectors.
func (e *evaluation) ofInput(ctx context.Context) (similar.Part, error) {
	vectors, err := e.Input.Vectors(ctx, e.Things)
	switch {
	case err != nil:
		return nil, err
	case e.Sparse:
		return similar.NewSparse(vectors, e.Laws.Dimensions, e.Candidates), nil
	}
	return similar.NewDense(vectors, e.Laws.Dimensions, e.Candidates), nil
}

// hasVectors reports whether lengths of sums can be had.
func (e *evaluation) hasVectors() bool {
	_, has := e.space.(eval.Vectors)
	return has
}

// run goes through the passes, the main one first.
func (e *evaluation) run(ctx context.Context) (*Report, error) {
	e.describe()
	tables := []func(context.Context) error{e.mainPass}
	if e.Options.Vectors != ItemKNN {
		tables = append(tables, e.neighbourPass)
	}
	if e.texts != nil {
		tables = append(tables, e.textPass)
	}
	if e.Tables {
		tables = append(tables, e.agePasses, e.windowPasses)
	}
	if e.ChooseFrom != e.TestFrom {
		tables = append(tables, e.choose)
	}
	for _, table := range tables {
		if err := table(ctx); err != nil {
			return nil, err
		}
	}
	return e.report, nil
}

// describe fills in what is known before the first pass.
func (e *evaluation) describe() {
	held := "what windows of " + windowText(e.Windows) + " have written"
	if e.Windows == (eval.Windows{}) {
		held = "each event at once"
	}
	if age, is := e.visible.(eval.Age); is {
		held = fmt.Sprintf("events at least %s old", lengthOrZero(engine.Millis(age)))
	}
	vectors := e.Model
	switch e.Options.Vectors {
	case Learned:
		vectors = "learned from the sessions of the warm-up"
	case ItemKNN:
		vectors = "none: item kNN of the sessions of the warm-up"
	case Hybrid:
		vectors = fmt.Sprintf("%s, with %d components learned from the sessions of the warm-up, share %v", e.Model, e.Hybrid.Components, e.Hybrid.Share)
	}
	e.report = &Report{
		Sample: e.Share,
		Log: Log{
			Events: e.Timeline.Events, Refused: e.Refused, Repeats: e.Repeated, Users: e.People, Products: len(e.Products),
			First: e.First.Time(), Last: e.Last.Time(), Choose: e.ChooseFrom.Time(), Test: e.TestFrom.Time(),
		},
		Vectors: vectors, Held: held, Asked: e.asked(), Cutoff: e.Cutoff, Seed: 1, Candidates: e.Candidates, LeftOut: e.LeftOut, Current: e.current.Name,
	}
}

// asked says what is to be found.
func (e *evaluation) asked() string {
	product := "new product"
	if e.Repeats {
		product = "product, known or new,"
	}
	if e.Targets != 0 {
		product += " with a " + e.Targets.String()
	}
	if e.Horizon > 0 {
		return fmt.Sprintf("the user's %ss of the next %s", product, lengthOrZero(e.Horizon))
	}
	return "the user's next " + product
}

// pass runs a plan and adds to the progress.
func (e *evaluation) pass(ctx context.Context, plan eval.Plan) (*eval.Result, error) {
	if plan.Space == nil {
		plan.Space = e.space
	}
	if plan.Visibility == nil {
		plan.Visibility = e.visible
	}
	plan.Cutoff = e.Cutoff
	result, err := e.Run(ctx, plan)
	if e.done += e.AskedUsers(); err == nil && e.OnProgress != nil {
		e.OnProgress(e.done)
	}
	return result, err
}

// setting returns the current one with another half-life.
func (e *evaluation) setting(h HalfLife) eval.Setting {
	s := e.current
	s.Name, s.Lambda = h.Name, eval.Lambda(h.Days)
	return s
}

// halfLives are those of the grid. The current one takes the place of one that is the same
// within 1 %.
func (e *evaluation) halfLives() (all []eval.Setting) {
	own := e.current.HalfLife()
	met := false
	for _, h := range e.HalfLives {
		if s := e.setting(h); h.Days == own || math.Abs(h.Days/own-1) <= 0.01 {
			met = true
			all = append(all, e.current)
		} else {
			if s.Name == e.current.Name { // rounded, it has the same
				s.Name += " exactly"
			}
			all = append(all, s)
		}
	}
	if !met {
		all = append(all, e.current)
		slices.SortStableFunc(all, func(a, b eval.Setting) int {
			switch {
			case a.HalfLife() < b.HalfLife():
				return -1
			case a.HalfLife() > b.HalfLife():
				return 1
			}
			return 0
		})
	}
	return all
}

// longestShort is the longest half-life of a second vector that is tried, in days; the
// shortest one is what the setting takes.
const longestShort = 1

// plan is that of the main pass.
func (e *evaluation) plan() (plan eval.Plan, kinds []Row) {
	plan = eval.Plan{Baselines: true, Coverage: true, Check: checkedQuestions, Settings: e.halfLives()}
	for _, name := range []string{eval.Random, eval.WarmUpPopularity, eval.Popularity} {
		kinds = append(kinds, Row{Name: name, Kind: "baseline"})
	}
	for _, s := range plan.Settings {
		kinds = append(kinds, Row{Kind: "half-life", HalfLifeDays: finite(s.HalfLife())})
	}
	halves := len(plan.Settings)
	long := slices.IndexFunc(plan.Settings, func(s eval.Setting) bool { return s == e.current })
	uniform, unit := e.current, e.current
	uniform.Name = e.current.Name + ", all weights 1"
	for t, w := range uniform.Weights {
		if w != 0 {
			uniform.Weights[t] = math.Copysign(1, w)
		}
	}
	plan.Settings = append(plan.Settings, uniform)
	kinds = append(kinds, Row{Kind: "weights"})
	if !e.hasVectors() {
		return plan, kinds
	}
	unit.History, unit.Name = profile.UnitMass, e.current.Name+", history unit"
	if e.current.History == profile.UnitMass {
		unit.History, unit.Name = profile.Mass, e.current.Name+", history mass"
	}
	plan.Settings = append(plan.Settings, unit)
	kinds = append(kinds, Row{Kind: "history"})
	for short, s := range plan.Settings[:halves] {
		if days := s.HalfLife(); days < profile.MinShortHalfLife.Hours()/24 || days > longestShort || days >= e.current.HalfLife() {
			continue
		}
		for _, share := range e.Mixes {
			plan.Mixes = append(plan.Mixes, eval.Mix{Name: mixName(share, s.Name, e.current.Name), Short: short, Long: long, Share: share})
			kinds = append(kinds, Row{Kind: "mix", HalfLifeDays: s.HalfLife(), Mix: share})
		}
	}
	plan.Blends = []eval.Blend{{Name: e.current.Name + " + 0.05 log popularity", Setting: long, Popularity: 0.05}}
	kinds = append(kinds, Row{Kind: "popularity"})
	return plan, kinds
}

func mixName(share float64, short, long string) string {
	return fmt.Sprintf("%.2g x %s + %.2g x %s", share, short, 1-share, long)
}

// finite returns days, 0 where they are none that JSON has.
func finite(days float64) float64 {
	if math.IsInf(days, 1) {
		return 0
	}
	return days
}

// mainPass compares the half-lives, mixes and baselines.
func (e *evaluation) mainPass(ctx context.Context) (err error) {
	plan, kinds := e.plan()
	if e.main, err = e.pass(ctx, plan); err != nil {
		return err
	}
	r := e.report
	r.Questions, r.Users, r.NoProfile, r.Checked = e.main.Questions[1], e.main.Users[1], e.main.NoProfile, e.main.Checked
	for i, g := range eval.Groups() {
		r.Groups = append(r.Groups, Group{g.By, g.Name, e.main.InGroup[i]})
	}
	e.addRows(e.main, kinds)
	return nil
}

// shortLog is how many half-lives a log must span to say something of one.
const shortLog = 8

// addRows adds a pass's rows to the report.
func (e *evaluation) addRows(from *eval.Result, kinds []Row) {
	span := e.First.Days(e.Last)
	for i, interval := range from.Intervals(e.main, e.current.Name) {
		row, kind := &from.Rows[i], kinds[i]
		kind.Name, kind.Choose, kind.Test, kind.Coverage, kind.Groups = row.Name, row.Choose, row.Test, row.Coverage, row.Groups
		kind.Interval, kind.Difference = interval.HR, interval.Difference
		kind.TooShort = kind.HalfLifeDays*shortLog > span
		e.report.Rows = append(e.report.Rows, kind)
	}
}

// TextsAlone is the row of a hybrid's questions that the vectors of texts answer.
const TextsAlone = "the texts alone"

// textPass adds what is found without what was learned.
func (e *evaluation) textPass(ctx context.Context) error {
	without := e.current
	without.Name = TextsAlone
	result, err := e.pass(ctx, eval.Plan{Space: e.texts, Settings: []eval.Setting{without}})
	if err != nil {
		return err
	}
	e.addRows(result, []Row{{Kind: "baseline"}})
	return nil
}

// neighbourPass adds item kNN, the baseline that a profile must know of.
func (e *evaluation) neighbourPass(ctx context.Context) error {
	last, own := e.setting(HalfLife{Name: "item kNN of the last event"}), e.current
	own.Name = "item kNN, " + e.current.Name
	last.History, own.History = profile.Mass, profile.Mass
	result, err := e.pass(ctx, eval.Plan{Space: similar.NewNeighbours(e.Sessions(), e.Candidates), Settings: []eval.Setting{last, own}})
	if err != nil {
		return err
	}
	e.addRows(result, []Row{{Kind: "baseline"}, {Kind: "baseline"}})
	return nil
}
