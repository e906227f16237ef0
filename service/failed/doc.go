// Package failed is what is known of failures: dead letters in the broker, and rows of the outbox
// that were set aside. Commands print these values, and pages show them.
//
//	Letter   one failure as it was read; Brief is what an index keeps of it
//	Filter   which failures are meant
//	Counts   how many there are, by reason and by type; Groups by both
//	Retried  what became of giving failures another try
package failed
