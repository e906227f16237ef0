package engine

// Slots is the number of slots users are spread over. It stands in stored rows and in
// the broker's routing keys and cannot be changed.
const Slots = 64

// SlotOf returns the slot of a user, 0 to [Slots]-1: Fibonacci hashing, so that ids
// with a common step are spread too.
func SlotOf(userID int32) int { return int(uint32(userID) * 2654435769 >> 26) }
