package inbox

import "keyfold/engine"

// State is where a stored event stands. The numbers are in the file: they never
// change.
type State uint8

// The states of an event.
const (
	StatePending        State = 0
	StateFolded         State = 1
	StateDuplicate      State = 2 // its id was in the profile already
	StateProductMissing State = 3
	StateUserErased     State = 4
	StateDead           State = 5 // the table dead says why
)

var stateNames = [...]string{"pending", "folded", "duplicate", "product_missing", "user_erased", "dead"}

// String returns the state's name in reports.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return ""
	}
	return stateNames[s]
}

var finalStates = map[engine.Outcome]State{
	engine.Folded:         StateFolded,
	engine.Duplicate:      StateDuplicate,
	engine.ProductMissing: StateProductMissing,
	engine.UserErased:     StateUserErased,
	engine.Dead:           StateDead,
	engine.Decided:        StateFolded, // no outcome of folding: the event is done with all the same
}

// stateOf returns the final state of an outcome; false where there is none.
func stateOf(o engine.Outcome) (State, bool) {
	s, ok := finalStates[o]
	return s, ok
}
