package notifyoracle

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// asks are the operators that compare with a text. They are false on what is of another kind.
var asks = map[string]func(have any, text string) bool{
	"prefix": func(have any, text string) bool {
		s, ok := have.(string)
		return ok && strings.HasPrefix(s, text)
	},
	"contains": func(have any, text string) bool {
		if list, ok := have.([]any); ok {
			return slices.ContainsFunc(list, func(member any) bool { return member == text })
		}
		s, ok := have.(string)
		return ok && strings.Contains(s, text)
	},
	"before": func(have any, text string) bool {
		at, ok := instantOf(have)
		end, _ := instantOf(text)
		return ok && at.Before(end)
	},
	"after": func(have any, text string) bool {
		at, ok := instantOf(have)
		end, _ := instantOf(text)
		return ok && at.After(end)
	},
}

// instantOf reads an instant, or a date: its midnight in UTC.
func instantOf(v any) (time.Time, bool) {
	switch v := v.(type) {
	case time.Time:
		return v, true
	case string:
		for _, form := range []string{time.RFC3339, time.DateOnly} {
			if at, err := time.Parse(form, v); err == nil {
				return at, true
			}
		}
	}
	return time.Time{}, false
}

// chosen reports whether a text is among the share that a rule chooses.
func chosen(rule uuid.UUID, text string, percent *big.Rat) bool {
	d := xxhash.NewWithSeed(xxhash.Sum64(rule[:]))
	_, _ = d.WriteString(text)
	place := big.NewRat(int64(d.Sum64()%10_000), 100)
	return place.Cmp(percent) < 0
}

// attributes are those of the user.
func (t *turn) attributes() map[string]any {
	text, err := json.Marshal(t.prefs.Attributes)
	if err != nil {
		panic(err)
	}
	object, err := ReadObject(text)
	if err != nil {
		panic(err)
	}
	return object
}

// countOf counts what was sent of the event's type, of its source or on one of its channels,
// such as "24h_type": a message once, and follow-ups for channels alone.
func (t *turn) countOf(name string) any {
	window, of, _ := strings.Cut(name, "_")
	w := notify.Windows[slices.Index([]string{"5m", "1h", "24h"}, window)]
	messages, n := map[uuid.UUID]bool{}, 0
	for i := range t.state.Sent {
		s := &t.state.Sent[i]
		if s.At <= t.now-w || s.At > t.now || s.Item && messages[s.Message] || !t.counts(s, of) {
			continue
		}
		messages[s.Message] = true
		n++
	}
	return whole(n)
}

func (t *turn) counts(s *Send, of string) bool {
	switch of {
	case "type":
		return s.Type == t.event.Type && !s.Follow
	case "source":
		return s.Source == t.event.Source && !s.Follow
	case "channel":
		return slices.ContainsFunc(s.Channels, func(c notify.Channel) bool { return slices.Contains(t.event.Channels, c) })
	}
	panic("the oracle has no count of " + of)
}

// milliseconds is the time of a strategy in a document.
func milliseconds(text string) engine.Millis {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic("the oracle does not read " + text)
	}
	return engine.Millis(d.Milliseconds())
}
