package profile

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"

	"keyfold/engine"
	"keyfold/engine/cure"
)

// MaxEventTypes bounds the types that a process knows.
const MaxEventTypes = 32

// ownSetting is the setting of a shop's own types.
const ownSetting cure.Name = "profile.OwnType"

// OwnType is an event type of a shop, beside those that every process knows.
type OwnType struct {
	Name   string
	Phrase bool    // its events have a search phrase; otherwise a product
	Weight float64 // may be negative, not 0
}

// TypeNamePattern is what a type may be called, a regular expression: a name is the last word of
// a routing key, and stands in lists of names in SQL.
const TypeNamePattern = `^[a-z][a-z0-9_]{0,31}$`

var typeName = regexp.MustCompile(TypeNamePattern)

// Check judges a type by itself.
func (o OwnType) Check() error {
	size := math.Abs(o.Weight)
	switch {
	case !typeName.MatchString(o.Name):
		return fmt.Errorf("%.40q is no name of an event type: it must be 1 to 32 of a-z, 0-9 and _, and begin with a letter", o.Name)
	case slices.ContainsFunc(eventTypes[:], func(row eventTypeRow) bool { return row.name == o.Name }):
		return fmt.Errorf("%s is one of keyfold's own types, whose weight has a setting of its own", o.Name)
	case !(size >= MinWeight && size <= MaxWeight):
		return fmt.Errorf("the weight of %s is %v: it must be a number from %g to %g, or as far below 0", o.Name, o.Weight, MinWeight, MaxWeight)
	}
	return nil
}

// typeTable is what a process knows of event types. It is replaced whole.
type typeTable struct {
	rows []eventTypeRow // by type
	all  []EventType
}

var (
	known    atomic.Pointer[typeTable]
	addition sync.Mutex
)

func init() { known.Store(newTypeTable(eventTypes[:])) }

func newTypeTable(rows []eventTypeRow) *typeTable {
	table := &typeTable{rows: rows}
	for t := range rows[1:] {
		table.all = append(table.all, EventType(t+1))
	}
	return table
}

// AddEventTypes makes the process know a shop's types, and returns them in the order of own.
// They are added before the first event is parsed. A type that is known already, from an
// earlier call, is the same type where its events have the same target. On an error, which
// names every fault, nothing is added.
func AddEventTypes(own []OwnType) ([]EventType, error) {
	addition.Lock()
	defer addition.Unlock()
	rows := slices.Clone(known.Load().rows)
	var faults engine.Faults
	types := make([]EventType, len(own))
	for i, o := range own {
		twice := slices.ContainsFunc(own[:i], func(other OwnType) bool { return other.Name == o.Name })
		faults.If(twice, "%s is there twice", o.Name)
		if err := o.Check(); err != nil {
			faults.If(true, "%w", err)
			continue
		}
		at := slices.IndexFunc(rows, func(row eventTypeRow) bool { return row.name == o.Name })
		if at < 0 {
			at = len(rows)
			rows = append(rows, eventTypeRow{name: o.Name, phrase: o.Phrase, setting: ownSetting})
		}
		faults.If(!twice && rows[at].phrase != o.Phrase, "%s has another target in this process", o.Name)
		types[i] = EventType(at)
	}
	most := MaxEventTypes - int(endOfEventTypes) + 1
	faults.If(len(rows) > MaxEventTypes+1, "there are %d event types of the shop: there may be %d", len(rows)-int(endOfEventTypes), most)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	known.Store(newTypeTable(rows))
	return types, nil
}
