package answers

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/sourcegraph/conc/pool"

	"keyfold/engine"
	"keyfold/engine/profile/eval"
	"keyfold/source/catalog/index"
)

// question is one of the log, with its number among those of the timeline.
type question struct {
	eval.Question
	number int
}

// inTime lists the questions in the order of time.
func inTime(t *eval.Timeline) (all []question) {
	for number, q := range t.Asked() {
		all = append(all, question{q, number})
	}
	slices.SortStableFunc(all, func(a, b question) int { return cmp.Compare(a.At, b.At) })
	return all
}

// candidates is a catalogue of those of a timeline. Those without a vector are not in it: they
// cannot be found.
func candidates(in *Input, t *eval.Timeline) *index.Index {
	all := index.New(in.Laws.Dimensions, in.Laws.Model)
	for _, thing := range t.Things[:t.Candidates] {
		p := in.Products[thing.Product]
		if p.Model = ""; p.Vector != nil {
			all.Put(p)
		}
	}
	return all
}

// replay is a log that is asked while it goes on.
type replay struct {
	history   *history
	profiles  *profiles
	endpoints []*endpoint
}

func newReplay(in *Input, t *eval.Timeline, asked []question, o Options) (*replay, error) {
	p, err := newProfiles(in, engine.Millis(o.Age.Milliseconds()), asked)
	if err != nil {
		return nil, err
	}
	r := &replay{history: newHistory(in.Events), profiles: p}
	catalogue := candidates(in, t)
	for _, ask := range o.Asks {
		e, err := newEndpoint(in, r.history, catalogue, o, ask, len(asked))
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.endpoints = append(r.endpoints, e)
	}
	return r, nil
}

func (r *replay) close() (err error) {
	for _, e := range r.endpoints {
		err = errors.Join(err, e.close())
	}
	return err
}

// put replays the log up to a question and asks it of all endpoints.
func (r *replay) put(ctx context.Context, q question) error {
	r.history.advance(q.At)
	if err := r.profiles.advance(ctx, q.User, q.At); err != nil {
		return err
	}
	group := pool.New().WithMaxGoroutines(runtime.GOMAXPROCS(0)).WithContext(ctx).WithFirstError()
	for _, e := range r.endpoints {
		group.Go(func(ctx context.Context) error { return e.put(ctx, q) })
	}
	return group.Wait()
}

// answer asks all questions, and returns what was answered to each kind of request.
func answerAll(ctx context.Context, in *Input, t *eval.Timeline, o Options) (all []*endpoint, err error) {
	asked := inTime(t)
	r, err := newReplay(in, t, asked, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for i, q := range asked {
		if err := r.put(ctx, q); err != nil {
			return nil, err
		}
		if in.OnProgress != nil {
			in.OnProgress(i+1, len(asked))
		}
	}
	return r.endpoints, nil
}
