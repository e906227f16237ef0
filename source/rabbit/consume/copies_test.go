package consume

import (
	"context"
	"errors"
	"testing"
	"time"

	"keyfold/engine"
)

// answers is a target that answers each copy of a group with an error of its own.
type answers struct {
	errs   []error
	failed int
	cause  error
}

func (a *answers) publish(context.Context, []pendingCopy) []error { return a.errs }
func (a *answers) confirmed() error                               { return nil }
func (a *answers) settle(*pendingCopy, error) bool                { return false }
func (a *answers) published(failed int, cause error) time.Duration {
	a.failed, a.cause = failed, cause
	return 0
}

// A missing queue needs no pause, since its copies wait in process; what else failed
// in the same group needs one.
func TestAMissingQueueHidesNoOtherFailure(t *testing.T) {
	refused := errors.New("refused")
	for _, errs := range [][]error{{refused, nil, engine.ErrUnroutable}, {engine.ErrUnroutable, nil, refused}} {
		target := &answers{errs: errs}
		c := copier{target: target}
		s := &session{ended: make(chan struct{})}
		c.send(t.Context(), []pendingCopy{{settler: &settler{session: s}}, {settler: &settler{session: s}}, {settler: &settler{session: s}}})
		if target.failed != 2 || !errors.Is(target.cause, refused) {
			t.Errorf("%v: %d failed, %v", errs, target.failed, target.cause)
		}
	}
}
