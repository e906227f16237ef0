//go:build failpoints

package failpoint

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

type action string

const (
	exit  action = "exit"
	fail  action = "error"
	sleep action = "sleep"
)

// point is one armed boundary.
type point struct {
	action action
	pause  time.Duration // of a sleep
	at     int           // the hit it acts on first
	every  int           // and then again after so many; 0 for never
	hits   int
	acted  int
	noted  bool
}

// due counts a hit and reports whether the point acts on it.
func (p *point) due() bool {
	p.hits++
	over := p.hits - p.at
	return over == 0 || over > 0 && p.every > 0 && over%p.every == 0
}

// parse reads "name=action:N" or "name=action:N/M", separated by semicolons.
func parse(text string) (*points, error) {
	p := &points{armed: map[string]*point{}}
	for spec := range strings.SplitSeq(text, ";") {
		if spec = strings.TrimSpace(spec); spec == "" {
			continue
		}
		name, rest, found := strings.Cut(spec, "=")
		if all := slices.Concat(Names, PartitionNames, NotificationNames); !found || !slices.Contains(all, name) {
			return nil, fmt.Errorf("%q names no point: they are %s", spec, strings.Join(all, ", "))
		}
		a, err := parsePoint(rest)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", spec, err)
		}
		if a.action == fail && !TakesErrors(name) {
			return nil, fmt.Errorf("%q: an error cannot be returned there: use exit or sleep", spec)
		}
		p.armed[name] = a
	}
	return p, nil
}

func parsePoint(text string) (*point, error) {
	what, when, _ := strings.Cut(text, ":")
	p := &point{action: action(what), at: 1}
	if pause, ok := strings.CutPrefix(what, string(sleep)+"("); ok {
		d, err := time.ParseDuration(strings.TrimSuffix(pause, ")"))
		if err != nil {
			return nil, err
		}
		p.action, p.pause = sleep, d
	}
	if !slices.Contains([]action{exit, fail, sleep}, p.action) || p.action == sleep && p.pause <= 0 {
		return nil, fmt.Errorf("the action must be exit, error or sleep(1s)")
	}
	first, every, repeats := strings.Cut(when, "/")
	var err error
	if when != "" {
		if p.at, err = strconv.Atoi(first); err != nil || p.at < 1 {
			return nil, fmt.Errorf("the hit must be a number from 1")
		}
	}
	if repeats {
		if p.every, err = strconv.Atoi(every); err != nil || p.every < 1 {
			return nil, fmt.Errorf("what follows / must be a number from 1")
		}
	}
	return p, nil
}
