package writer

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"

	"keyfold/engine"
	"keyfold/source/rabbit"
	"keyfold/source/stream"
)

// Events publishes events of a program that stores no numbers of groups, as a [rabbit.Publisher]
// does to an exchange. One that is published again, since its outcome was not known, may stand
// in its stream twice.
type Events struct {
	writer    *Writer
	reference string            // of this value alone: its numbers begin anew
	numbers   map[string]uint64 // by stream, of the last group
}

// NewEvents returns what publishes by a writer. One goroutine at a time uses it.
func NewEvents(w *Writer) *Events {
	return &Events{writer: w, reference: "events." + rand.Text(), numbers: map[string]uint64{}}
}

// Publish publishes messages made by [rabbit.Names.StreamMessage], in their order, in groups of
// a stream. The answers are aligned with messages, and are those of [Writer.Publish].
func (e *Events) Publish(ctx context.Context, messages []rabbit.Message) []error {
	errs := make([]error, len(messages))
	s, err := e.writer.session(ctx)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	var groups []Group
	var members [][]int         // of each group, places in messages
	filling := map[string]int{} // by stream, the group that is not full
	for i := range messages {
		name, message, err := e.encode(&messages[i], s.streams)
		if err != nil {
			errs[i] = engine.PermanentError("unpublishable", err)
			continue
		}
		at, ok := filling[name]
		if !ok || len(groups[at].Messages) == stream.MaxSubEntry {
			at = len(groups)
			filling[name] = at
			e.numbers[name]++
			groups = append(groups, Group{Stream: name, Reference: e.reference, Number: e.numbers[name]})
			members = append(members, nil)
		}
		groups[at].Messages = append(groups[at].Messages, message)
		members[at] = append(members[at], i)
	}
	for at, err := range e.writer.Publish(ctx, groups) {
		for _, i := range members[at] {
			errs[i] = err
		}
	}
	return errs
}

// encode returns the stream of a message, and the message as streams have it.
func (e *Events) encode(m *rabbit.Message, streams []string) (name string, message []byte, err error) {
	slot, err := strconv.ParseUint(m.RoutingKey, 10, 6)
	if err != nil {
		return "", nil, fmt.Errorf("streams: the routing key %q is no slot", m.RoutingKey)
	}
	message, err = stream.AppendMessage(nil, m.Body, m.Headers)
	return streams[int(slot)%len(streams)], message, err
}

// Close closes the writer.
func (e *Events) Close(ctx context.Context) error { return e.writer.Close(ctx) }
