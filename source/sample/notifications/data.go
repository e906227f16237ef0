package notifications

import (
	_ "embed"
	"encoding/json"
	"math/rand/v2"
	"sync"

	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

//go:embed week.json
var weekFile []byte

// catalogue is week.json.
type catalogue struct {
	Kinds     []kind
	Countries []weighted[country]
	Quiet     []weighted[quiet.Hours]
	Muted     []weighted[[]notify.EventType]
	Channels  []weighted[[]notify.Channel]
	Caps      []weighted[notify.Caps]
	Languages map[string]*language
}

// kind is what notifications are about, how their service sends them, and when.
type kind struct {
	Name     string // of the texts
	Type     notify.EventType
	Source   string
	Channels []notify.Channel
	Hint     notify.Hint
	Expires  float64           // hours; 0: never
	Metadata map[string]string // texts with slots
	Key      string            // dedupe_key, a text with slots; "": none
	Keyed    int               // percent of the events that have the key; 0: all
	// On is what the kind follows: a visit, an order or a cart that a visit ended with, or
	// a morning or an evening, of which many users are told.
	On      string
	Days    []int      // the weekdays, from Monday as 1; none: each
	Percent int        // of the visits, or of the users
	After   [2]float64 // hours
	Times   int        // at most so many about one thing, one after the other
	Every   [2]float64 // hours between these
	Ahead   float64    // hours until the date that the text names
}

type country struct {
	Zone     string  // IANA
	Hours    float64 // of standard time, whatever zone data a machine has
	Language string
	Price    string // format of an amount
}

// language has the texts of one language. In them {x} is a slot, and [a|b] are wordings
// of one meaning.
type language struct {
	Joint string // between sentences
	Date  string // layout
	Names []string
	Steps []string            // states of an order, in their order
	Said  []string            // lines of support
	Texts map[string][]string // by kind: a title and sentences
}

var data = sync.OnceValue(func() *catalogue {
	var c catalogue
	if err := json.Unmarshal(weekFile, &c); err != nil {
		panic(err) // the file is a part of the program; its tests read it
	}
	return &c
})

// weighted is a choice with its share of all.
type weighted[T any] struct {
	Share int
	Is    T
}

// draw returns a choice by the shares.
func draw[T any](r *rand.Rand, of []weighted[T]) T {
	total := 0
	for i := range of {
		total += of[i].Share
	}
	n, i := r.IntN(total), 0
	for ; n >= of[i].Share; i++ {
		n -= of[i].Share
	}
	return of[i].Is
}
