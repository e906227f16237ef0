package sim

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"slices"
	"time"
)

const (
	// heartbeat is in seconds; what says nothing for two of them is gone. No time of
	// the broker's is a multiple of one of the worker's.
	heartbeat      = 10
	silenceTimeout = 2*heartbeat*time.Second + 314159265
	beatEvery      = heartbeat*time.Second/2 - 271828182
	frameLimit     = 128 << 10
)

// amqpConn is the broker's side of one connection.
type amqpConn struct {
	broker *broker
	id     uint64
	wire   *wire

	// Guarded by the broker's mu.
	out      writer
	open     bool // the handshake is over
	over     bool
	channels map[uint16]*channel
}

// channel is one channel of a connection.
type channel struct {
	prefetch  int
	last      uint64 // delivery tag
	out       []outstanding
	confirms  bool
	published uint64
	closing   bool

	// The publication whose frames are coming in.
	exchange, key string
	properties    []byte
	body          []byte
	size          uint64
}

// outstanding is a message that was delivered and not acknowledged.
type outstanding struct {
	tag      uint64
	consumer *consumer
	message  *message
}

// serve talks to a worker until the connection ends.
func (b *broker) serve(w *wire, id uint64) {
	p := &amqpConn{broker: b, id: id, wire: w, channels: map[uint16]*channel{}}
	in := bufio.NewReaderSize(socket{wire: w, in: w.up, out: w.down}, 4096)
	greeting := make([]byte, 8)
	if _, err := io.ReadFull(in, greeting); err != nil || !bytes.Equal(greeting, []byte("AMQP\x00\x00\x09\x01")) {
		w.cut(false)
		return
	}
	b.mu.Lock()
	b.conns = append(b.conns, p)
	p.out.method(0, connectionStart, uint8(0), uint8(9), uint32(0), uint32(5), []byte("PLAIN"), uint32(5), []byte("en_US"))
	p.flush()
	b.mu.Unlock()
	beat := time.AfterFunc(beatEvery, p.beat)
	var room []byte
	for {
		w.up.setDeadline(time.Now().Add(silenceTimeout))
		f, err := readFrame(in, &room)
		if err != nil || !p.take(f) {
			break
		}
	}
	beat.Stop()
	// Those that end together are noticed one after the other.
	d := b.rng("leave", id)
	time.Sleep(d.Between(time.Microsecond, time.Millisecond))
	p.disconnected()
}

// beat tells the worker that the connection lives.
func (p *amqpConn) beat() {
	p.broker.mu.Lock()
	defer p.broker.mu.Unlock()
	if p.over {
		return
	}
	p.out.heartbeat()
	p.flush()
	time.AfterFunc(beatEvery, p.beat)
}

// flush writes the frames that were built.
func (p *amqpConn) flush() {
	if len(p.out.b) > 0 {
		_, _ = p.wire.down.write(p.out.b)
		p.out.b = p.out.b[:0]
	}
}

// disconnected gives back what the connection had not acknowledged.
func (p *amqpConn) disconnected() {
	p.wire.cut(false)
	b := p.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	p.over = true
	b.conns = slices.DeleteFunc(b.conns, func(other *amqpConn) bool { return other == p })
	back := 0
	for _, number := range slices.Sorted(maps.Keys(p.channels)) {
		back += p.closeChannel(number)
	}
	b.Note("broker", p.wire.purpose+" gone, given back", int64(p.id), int64(back))
	b.pump()
}

// closeChannel gives back what the channel held and returns how much that was.
func (p *amqpConn) closeChannel(number uint16) int {
	b := p.broker
	c := p.channels[number]
	if c == nil {
		return 0
	}
	delete(p.channels, number)
	b.consumers = slices.DeleteFunc(b.consumers, func(s *consumer) bool { return s.conn == p && s.channel == number })
	for _, o := range c.out {
		b.unacked--
		b.giveBack(o.message)
	}
	return len(c.out)
}

// deliver hands a message to a consumer. The caller holds the broker's mu.
func (p *amqpConn) deliver(s *consumer, m *message) {
	b := p.broker
	c := p.channels[s.channel]
	c.last++
	s.held++
	b.unacked++
	c.out = append(c.out, outstanding{c.last, s, m})
	again := uint8(0)
	if m.redelivered {
		again = 1
	}
	b.Note("broker", "delivered to "+p.wire.purpose, int64(p.id), int64(c.last), int64(m.event), int64(again))
	p.out.method(s.channel, basicDeliver, s.tag, c.last, again, m.exchange, "user.embedding.event")
	p.out.content(s.channel, m.properties, m.body)
	p.flush()
}

// ack takes an acknowledgement. One of a tag that is not out ends the channel.
func (p *amqpConn) ack(number uint16, tag uint64, multiple bool) {
	b := p.broker
	c := p.channels[number]
	at := slices.IndexFunc(c.out, func(o outstanding) bool { return o.tag == tag })
	if at < 0 {
		b.Note("broker", "unknown tag acknowledged", int64(p.id), int64(tag))
		b.badAcks++
		p.closeChannel(number)
		c.closing = true
		p.channels[number] = c
		c.out = nil
		p.out.method(number, channelClose, uint16(406), "PRECONDITION_FAILED - unknown delivery tag", uint16(60), uint16(80))
		p.flush()
		return
	}
	first := at
	if multiple {
		first = 0
	}
	settled := slices.Clone(c.out[first : at+1])
	c.out = slices.Delete(c.out, first, at+1)
	for _, o := range settled {
		o.consumer.held--
		b.unacked--
		b.Note("broker", "acknowledged by "+p.wire.purpose, int64(p.id), int64(o.tag), int64(o.message.event))
		b.gone(o.message)
	}
}
