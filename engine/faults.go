package engine

import (
	"errors"
	"fmt"
)

// Faults gathers what is wrong with settings, so that all of it is reported at once.
type Faults []error

// If adds a fault where bad holds.
func (f *Faults) If(bad bool, format string, args ...any) {
	if bad {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Err returns all faults as one error, nil where there is none.
func (f Faults) Err() error { return errors.Join(f...) }
