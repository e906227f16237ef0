package rabbit

import (
	"fmt"
	"strconv"
	"strings"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// HeaderStream is where the event stands whose copy a message is: stream@offset, or
// stream+epoch@offset.
const HeaderStream = "keyfold-stream"

// MaxStreams is the largest number of streams of a generation.
const MaxStreams = MaxPartitions

// maxGeneration is the largest that a [profile.StreamID] has room for.
const maxGeneration = 1<<8 - 1

// Stream names one stream of events. Another number of streams is another generation,
// whose streams have other names.
type Stream struct {
	Generation int // from 1 on
	Partition  int // it takes the events of every slot s with s % P = Partition
}

// StreamBase returns what the names of the application's streams begin with.
func (n Names) StreamBase() string { return strings.TrimSuffix(n.Slots, "_slots") + "_streams" }

// StreamExchange returns the direct exchange that events are published to by slot, for the
// streams.
func (n Names) StreamExchange() string { return n.StreamBase() }

// Rebuild returns the names of workers that make the profiles of another database anew from
// streams, beside the workers of this one: their queue takes nothing but the copies of their
// own events that wait for a retry.
func (n Names) Rebuild(database string) Names {
	n.Queue += ".rebuild." + database
	n.DeadLetters += ".rebuild." + database
	n.Bindings = nil
	return n
}

// WithoutSlots returns the names of an application that has no partitions.
func (n Names) WithoutSlots() Names {
	n.Slots = ""
	return n
}

// StreamMessage returns the message of an event that goes to its user's stream.
func (n Names) StreamMessage(body []byte, event *profile.Event) Message {
	m := n.EventMessage(body, event)
	m.Exchange, m.RoutingKey = n.StreamExchange(), n.SlotKey(engine.SlotOf(event.UserID))
	return m
}

// StreamQueue returns the stream's name at the broker.
func (n Names) StreamQueue(s Stream) string {
	return fmt.Sprintf("%s.%d-%d", n.StreamBase(), s.Generation, s.Partition)
}

// StreamOf reads what StreamQueue made.
func (n Names) StreamOf(queue string) (s Stream, ok bool) {
	text, ok := strings.CutPrefix(queue, n.StreamBase()+".")
	generation, partition, cut := strings.Cut(text, "-")
	var errs [2]error
	s.Generation, errs[0] = strconv.Atoi(generation)
	s.Partition, errs[1] = strconv.Atoi(partition)
	ok = ok && cut && errs[0] == nil && errs[1] == nil && s.Generation > 0 && s.Generation <= maxGeneration && s.Partition >= 0 && s.Partition < MaxStreams
	return s, ok && n.StreamQueue(s) == queue
}

// ID returns what profiles know an epoch of the stream by.
func (s Stream) ID(epoch uint16) profile.StreamID {
	return profile.StreamID(epoch)<<16 | profile.StreamID(s.Generation)<<8 | profile.StreamID(s.Partition)<<1
}

// FormatPlace returns the value of [HeaderStream].
func (n Names) FormatPlace(s Stream, epoch uint16, offset uint64) string {
	text := n.StreamQueue(s)
	if epoch > 0 {
		text += "+" + strconv.Itoa(int(epoch))
	}
	return text + "@" + strconv.FormatUint(offset, 10)
}

// Place returns where the event stands whose copy this is; zero for a message that is none.
func (n Names) Place(o *Original) profile.Place {
	text, _ := o.Headers[HeaderStream].(string)
	text, offset, _ := strings.Cut(text, "@")
	queue, number, later := strings.Cut(text, "+")
	s, ok := n.StreamOf(queue)
	at, err := strconv.ParseUint(offset, 10, 64)
	epoch := uint64(0)
	if later && err == nil {
		epoch, err = strconv.ParseUint(number, 10, 16)
	}
	if !ok || err != nil {
		return profile.Place{}
	}
	return profile.Place{Stream: s.ID(uint16(epoch)), Offset: at}
}
