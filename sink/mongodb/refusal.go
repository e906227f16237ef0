package mongodb

import (
	"context"
	"errors"
	"fmt"

	"keyfold/engine"
)

// refusal is the error of one statement with a code that says neither that the
// outcome is unknown nor that the document is at fault. The statement was not
// applied. Codes do not tell whether the reason is the document or the store
// (writes blocked, a lost shard, a deadlock's victim): [Store.judge] does.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// Is makes a refusal the document's own until it is judged otherwise.
func (r refusal) Is(target error) bool { return target == engine.ErrOwn }

// severalUsers is how many users' documents are no accident of their own when a
// store refuses all of them and takes no other.
const severalUsers = 3

// judge decides by share whose the refusals of a Swap are. They are the store's if
// it took nothing at all: no other document of several, or, where there are few,
// not that of a probe either.
func (s *Store) judge(ctx context.Context, errs []error) {
	for _, err := range errs {
		if _, refused := errors.AsType[refusal](err); !refused {
			return // it took this one, or there is a clearer answer
		}
	}
	var probe error
	if len(errs) < severalUsers {
		if len(errs) == 0 {
			return
		}
		if probe = s.Probe(ctx); probe == nil {
			return
		}
	}
	for i, err := range errs {
		r, _ := errors.AsType[refusal](err)
		if errs[i] = r.error; probe != nil {
			errs[i] = fmt.Errorf("%w; it takes no other document either: %w", r.error, probe)
		}
	}
}

// refused returns the writes that were refused. They are sent once more at once:
// a store that locks rows in their order may end a bulk with a deadlock, which
// refuses all of its remaining statements with one code.
func refused(writes []write) (again []write) {
	for _, w := range writes {
		if _, ok := errors.AsType[refusal](*w.answer); ok {
			again = append(again, w)
		}
	}
	return again
}
