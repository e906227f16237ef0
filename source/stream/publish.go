package stream

import (
	"errors"
	"fmt"
)

// Numbered is an encoded message (see [AppendMessage]) under its publishing id. Ids of one
// reference rise in the order of publishing.
type Numbered struct {
	ID      uint64
	Message []byte
}

// MaxSubEntry is how many messages stand in one sub-entry at most.
const MaxSubEntry = 125

// ErrTooLarge: a message does not fit into a frame.
var ErrTooLarge = errors.New("the message does not fit into a frame of the broker (stream.frame_max)")

// Sizes in a frame of messages.
const (
	publishHead  = 4 + headerSize + 1 + 4 // the frame's size, its header, the publisher, the count
	entryHead    = 8 + 4                  // the publishing id and the size
	subEntryHead = 8 + 1 + 2 + 4 + 4      // the publishing id, the kind, the count, both sizes
	lengthSize   = 4                      // of a message in a sub-entry
)

// Publish sends messages, each an entry of its own, in as few frames as the broker's bound
// allows. Nothing is sent where one of them fits into no frame ([ErrTooLarge]). It waits for
// no confirm. A broker that has too many to confirm, or that is low on memory or disk, reads
// no more: then Publish waits, and the connection ends after the time limit of a write.
func (p *Publisher) Publish(messages []Numbered) error {
	return p.publish(messages, func(messages []Numbered, room int) (taken int) {
		n := entryHead + len(messages[0].Message)
		if n > room {
			return 0
		}
		p.buffer = order.AppendUint64(p.buffer, messages[0].ID)
		p.buffer = order.AppendUint32(p.buffer, uint32(len(messages[0].Message)))
		p.buffer = append(p.buffer, messages[0].Message...)
		return 1
	})
}

// PublishSubEntries is Publish with up to [MaxSubEntry] messages in a sub-entry, which has
// the publishing id of its last one: its outcome is all of theirs. The broker spends less on
// them, and drops or stores a sub-entry as a whole.
func (p *Publisher) PublishSubEntries(messages []Numbered) error {
	return p.publish(messages, p.appendSubEntry)
}

// PublishGroup sends messages that the broker takes as a whole, under one publishing id: one of
// them as an entry, more as a sub-entry. Where they do not fit into a frame nothing is sent
// ([ErrTooLarge]).
func (p *Publisher) PublishGroup(id uint64, messages [][]byte) error {
	size := publishHead + subEntryHead
	all := make([]Numbered, len(messages))
	for i, m := range messages {
		all[i] = Numbered{ID: id, Message: m}
		size += lengthSize + len(m)
	}
	switch {
	case size > p.conn.frameMax, len(messages) > MaxSubEntry:
		return fmt.Errorf("rabbitmq stream: publish to stream %q: %d messages: %w: %d bytes of %d", p.stream, len(messages), ErrTooLarge, size, p.conn.frameMax)
	case len(messages) == 1:
		return p.Publish(all)
	}
	return p.PublishSubEntries(all)
}

func (p *Publisher) appendSubEntry(messages []Numbered, room int) (taken int) {
	size := 0
	for taken < min(len(messages), MaxSubEntry) {
		more := lengthSize + len(messages[taken].Message)
		if subEntryHead+size+more > room {
			break
		}
		size += more
		taken++
	}
	if taken == 0 {
		return 0
	}
	p.buffer = order.AppendUint64(p.buffer, messages[taken-1].ID)
	p.buffer = append(p.buffer, subEntry|uncompressed<<compressionShift)
	p.buffer = order.AppendUint16(p.buffer, uint16(taken))
	p.buffer = order.AppendUint32(p.buffer, uint32(size))
	p.buffer = order.AppendUint32(p.buffer, uint32(size))
	for _, m := range messages[:taken] {
		p.buffer = order.AppendUint32(p.buffer, uint32(len(m.Message)))
		p.buffer = append(p.buffer, m.Message...)
	}
	return taken
}

// publish makes and sends frames. add appends one entry within the room that is left in the
// frame, and returns how many messages it took, 0 where the room is too small.
func (p *Publisher) publish(messages []Numbered, add func(messages []Numbered, room int) int) error {
	for _, m := range messages {
		if need := publishHead + subEntryHead + lengthSize + len(m.Message); need > p.conn.frameMax {
			return fmt.Errorf("rabbitmq stream: publish to stream %q: publishing id %d: %w: %d bytes of %d",
				p.stream, m.ID, ErrTooLarge, need, p.conn.frameMax)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(messages) > 0 {
		if err := p.Err(); err != nil {
			return err
		}
		p.begin()
		entries := uint32(0)
		for len(messages) > 0 {
			taken := add(messages, p.conn.frameMax-len(p.buffer))
			if taken == 0 {
				break
			}
			messages = messages[taken:]
			entries++
		}
		order.PutUint32(p.buffer, uint32(len(p.buffer)-4))
		order.PutUint32(p.buffer[publishHead-4:], entries)
		if err := p.conn.write(p.buffer); err != nil {
			return err
		}
	}
	return nil
}

// begin makes the head of a frame, with its size and count to be set.
func (p *Publisher) begin() {
	p.buffer = append(p.buffer[:0], 0, 0, 0, 0)
	p.buffer = order.AppendUint16(p.buffer, publish)
	p.buffer = order.AppendUint16(p.buffer, version)
	p.buffer = append(p.buffer, p.id, 0, 0, 0, 0)
}
