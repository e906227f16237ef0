package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Retry says how often and how soon an event is tried again.
type Retry struct {
	Attempts int           // after the first one
	Delay    time.Duration // before the first retry; doubled each time
}

// MaxRetryDelay is where doubling ends.
const MaxRetryDelay = time.Minute

// Validate reports every fault at once.
func (r Retry) Validate() error {
	var faults []error
	if r.Attempts < 0 || r.Attempts > 100 {
		faults = append(faults, fmt.Errorf("WORKER_MAX_RETRIES is %d: it must be between 0 and 100", r.Attempts))
	}
	if r.Delay < time.Millisecond || r.Delay > MaxRetryDelay {
		faults = append(faults, fmt.Errorf("WORKER_RETRY_DELAY is %v: it must be between 1 and 60000 (milliseconds)", r.Delay))
	}
	return errors.Join(faults...)
}

// reader turns text into values and keeps the faults.
type reader struct{ faults []error }

func (p *reader) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Errorf(format, args...))
}

// add keeps a fault, if it is one.
func (p *reader) add(err error) {
	if err != nil {
		p.faults = append(p.faults, err)
	}
}

func (p *reader) err() error { return errors.Join(p.faults...) }

// The functions below leave a value as it is, at its default, where the text is
// none: the rest can then be checked without blaming it for that.

func (p *reader) integer(name, text string, into *int) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		p.fault("%s is %q: it must be a whole number", name, text)
		return
	}
	*into = n
}

func (p *reader) number(name, text string, into *float64) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		p.fault("%s is %q: it must be a number", name, text)
		return
	}
	*into = n
}

func (p *reader) seconds(name, text string, into *time.Duration) {
	p.duration(name, text, time.Second, "seconds", into)
}

func (p *reader) milliseconds(name, text string, into *time.Duration) {
	p.duration(name, text, time.Millisecond, "milliseconds", into)
}

// duration reads a plain number of units, or a number with its unit (1m30s).
func (p *reader) duration(name, text string, unit time.Duration, units string, into *time.Duration) {
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e9 {
		*into = time.Duration(n * float64(unit))
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		p.fault("%s is %q: it must be a number of %s or a duration such as 1m30s", name, text, units)
		return
	}
	*into = d
}

// bytes reads a size: a plain number of bytes, or one with K, M or G (powers of
// 1024, as PHP's memory_limit has them; MB, MiB and so on mean the same).
func (p *reader) bytes(name, text string, into *int64) {
	digits := strings.TrimSpace(strings.ToUpper(text))
	digits = strings.TrimSuffix(strings.TrimSuffix(digits, "B"), "I")
	shift := 0
	for i, unit := range []string{"K", "M", "G"} {
		if rest, ok := strings.CutSuffix(digits, unit); ok {
			digits, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n < 0 || n > 1<<50>>shift {
		p.fault("%s is %q: it must be a size such as 512M", name, text)
		return
	}
	*into = n << shift
}
