package sim

import (
	"slices"
	"time"

	"keyfold/proof/schedule"
)

// take serves one frame and reports whether the connection goes on.
func (p *amqpConn) take(f frame) bool {
	b := p.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.over {
		return false
	}
	goesOn := true
	switch f.kind {
	case frameMethod:
		arguments := fields(f.payload)
		goesOn = p.serve(f.channel, method(arguments.number(4)), arguments)
	case frameHeader, frameBody:
		goesOn = p.contents(f)
	}
	p.flush()
	b.pump()
	return goesOn
}

// serve answers one method.
func (p *amqpConn) serve(number uint16, m method, a fields) bool {
	if c := p.channels[number]; c != nil && c.closing && m != channelCloseOK {
		return true
	}
	switch m {
	case connectionStartOK:
		p.out.method(0, connectionTune, uint16(0), uint32(frameLimit), uint16(heartbeat))
	case connectionOpen:
		p.out.method(0, connectionOpenOK, "")
		p.open = true
		if p.broker.alarm {
			p.out.method(0, connectionBlocked, "low on memory")
		}
	case connectionClose:
		p.out.method(0, connectionCloseOK)
		p.flush()
		return false
	case channelOpen:
		p.channels[number] = &channel{}
		p.out.method(number, channelOpenOK, uint32(0))
	case channelClose:
		p.closeChannel(number)
		p.out.method(number, channelCloseOK)
	case channelCloseOK:
		delete(p.channels, number)
	case basicCancelOK, connectionTuneOK:
	default:
		return p.serveBasic(number, m, a)
	}
	return true
}

// serveBasic answers a method of an open channel.
func (p *amqpConn) serveBasic(number uint16, m method, a fields) bool {
	c := p.channels[number]
	if c == nil {
		return true // it was closed on the way
	}
	switch m {
	case basicQos:
		a.number(4)
		c.prefetch = int(a.number(2))
		p.out.method(number, basicQosOK)
	case basicConsume:
		a.number(2)
		queue, tag := a.text(), a.text()
		if queue != p.broker.names.Queue {
			p.broker.fault("consumed from %q", queue)
			return false
		}
		p.broker.consumers = append(p.broker.consumers, &consumer{conn: p, channel: number, tag: tag, prefetch: c.prefetch})
		p.out.method(number, basicConsumeOK, tag)
	case basicCancel:
		tag := a.text()
		p.unsubscribe(number, tag)
		p.out.method(number, basicCancelOK, tag)
	case basicAck:
		tag := a.number(8)
		p.ack(number, tag, a.number(1)&1 == 1)
	case confirmSelect:
		c.confirms = true
		p.out.method(number, confirmSelectOK)
	case basicPublish:
		a.number(2)
		c.exchange, c.key = a.text(), a.text()
	default:
		p.broker.fault("method %d.%d is not in the model", m>>16, m&0xffff)
		return false
	}
	return true
}

func (p *amqpConn) unsubscribe(number uint16, tag string) {
	b := p.broker
	b.consumers = slices.DeleteFunc(b.consumers, func(s *consumer) bool {
		return s.conn == p && s.channel == number && s.tag == tag
	})
}

// contents takes a header or body frame of a publication.
func (p *amqpConn) contents(f frame) bool {
	c := p.channels[f.channel]
	if c == nil || c.closing {
		return true
	}
	if f.kind == frameHeader {
		a := fields(f.payload)
		a.number(4)
		c.size = a.number(8)
		c.properties, c.body = slices.Clone(a), nil
	} else {
		c.body = append(c.body, f.payload...)
	}
	if uint64(len(c.body)) < c.size {
		return true
	}
	return p.publication(f.channel, c)
}

// publication decides what becomes of a message that has come in whole.
func (p *amqpConn) publication(number uint16, c *channel) bool {
	b := p.broker
	c.published++
	tag := c.published
	m := &message{properties: c.properties, body: c.body}
	d := b.rng("publication", p.id, tag, schedule.InstantOf(time.Now()))
	faulty := !b.quiet()
	switch {
	case faulty && d.Chance(b.plan.rates.lost):
		b.Note("broker", "publication lost with its connection", int64(p.id))
		p.wire.cut(true)
		return false
	case faulty && d.Chance(b.plan.rates.refused):
		b.Note("broker", "publication refused", int64(p.id), int64(tag))
		p.later(&d, func() { p.out.method(number, basicNack, tag, uint8(0)) })
		return true
	}
	key, exchange := c.key, c.exchange
	if !b.routed(exchange, key, m) {
		b.Note("broker", "publication returned", int64(p.id), int64(tag))
		p.out.method(number, basicReturn, uint16(312), "NO_ROUTE", exchange, key)
		p.out.content(number, m.properties, m.body)
		p.out.method(number, basicAck, tag, uint8(0))
		return true
	}
	if faulty && d.Chance(b.plan.rates.unconfirmed) {
		b.Note("broker", "confirm lost with its connection", int64(p.id), int64(tag))
		p.wire.cut(true)
		return false
	}
	p.later(&d, func() { p.out.method(number, basicAck, tag, uint8(0)) })
	return true
}

// later answers after a while, as a broker that writes to its disk first.
func (p *amqpConn) later(d *schedule.RNG, answer func()) {
	time.AfterFunc(d.Latency(2*time.Millisecond, 2*time.Second), func() {
		b := p.broker
		b.mu.Lock()
		defer b.mu.Unlock()
		if !p.over {
			answer()
			p.flush()
		}
	})
}
