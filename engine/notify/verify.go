package notify

import (
	"fmt"
	"slices"

	"keyfold/engine"
)

// Differences compares a stored state with the fold over the user's records, of which
// those from before since are not known: what came from them is left out. Each text is one
// difference; none: the states are equal.
func (s *State) Differences(folded *State, since engine.Millis) (differences []string) {
	stored, made := s.Clone(), folded.Clone()
	stored.prune(since - 1)
	made.prune(since - 1)
	differ := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	if stored.DecidedAt != made.DecidedAt && stored.DecidedAt >= since {
		differ("the newest decision is of %s, by the records of %s", stored.DecidedAt.Time(), made.DecidedAt.Time())
	}
	if !slices.Equal(stored.Sends, made.Sends) {
		differ("%d sends are counted, by the records %d, %s", len(stored.Sends), len(made.Sends), firstDifference(stored.Sends, made.Sends))
	}
	for _, t := range EventTypes {
		if stored.LastSend[t] != made.LastSend[t] {
			differ("the last %s is of %s, by the records of %s", t, atOrNone(stored.LastSend[t]), atOrNone(made.LastSend[t]))
		}
	}
	if !slices.Equal(stored.Marks, made.Marks) {
		differ("%d events are remembered as sent or deferred, by the records %d, or they differ in their texts or times", len(stored.Marks), len(made.Marks))
	}
	before := func(r Reservation) bool { return r.Made < since }
	stored.Reserved, made.Reserved = slices.DeleteFunc(stored.Reserved, before), slices.DeleteFunc(made.Reserved, before)
	if !slices.EqualFunc(stored.Reserved, made.Reserved, sameReservation) {
		differ("%d slots are reserved, by the records %d, or they differ in their events or times", len(stored.Reserved), len(made.Reserved))
	}
	// The digest that was sent last may be of any time.
	if none := (State{}).LastDigest; made.LastDigest != none && stored.LastDigest != made.LastDigest {
		differ("the last digest is %s, by the records %s", stored.LastDigest, made.LastDigest)
	}
	return differences
}

// sameReservation compares a stored reservation with that of a record. A state of version 2
// has kept nothing of its channels and its source.
func sameReservation(stored, made Reservation) bool {
	if stored.Sent == (Sent{At: stored.At, Type: stored.Type}) {
		made.Sent = Sent{At: made.At, Type: made.Type}
	}
	return stored == made
}

func atOrNone(at engine.Millis) string {
	if at == 0 {
		return "none"
	}
	return at.Time().String()
}

// firstDifference says where two lists of instants begin to differ.
func firstDifference(stored, made []engine.Millis) string {
	at := func(all []engine.Millis, i int) string {
		if i < len(all) {
			return all[i].Time().String()
		}
		return "none"
	}
	for i := range max(len(stored), len(made)) {
		if a, b := at(stored, i), at(made, i); a != b {
			return fmt.Sprintf("the first that differs is %s, by the records %s", a, b)
		}
	}
	return ""
}
