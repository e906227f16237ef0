package outbox

import (
	"context"
)

// Publisher publishes rows and awaits the broker's answer for each. The result
// is aligned with rows:
//
//	nil                       the message is the broker's to keep
//	[engine.ErrUnroutable]    no queue wanted it
//	[engine.ErrRefused]       the broker did not take it over
//	a permanent error         it can never be published
//	[engine.ErrUnknown]       it may have been published; it is sent again
//	all else                  it was not published: the broker is away
//
// The first three are the row's own; the others stop the batch. Publish is
// called from several goroutines. ctx has a deadline.
type Publisher interface {
	Publish(ctx context.Context, rows []Row) []error
}

// verdict is what becomes of a row that was not sent.
type verdict uint8

const (
	postponed verdict = iota // tried again later; the user's later rows wait
	setAside                 // given up; the user's later rows go on
)
