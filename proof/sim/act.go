package sim

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"keyfold/proof/schedule"
)

// act does what the plan has next. What is to be started again is.
func (w *simulation) act(a action) {
	w.Note("plan", disturbanceNames[a.disturbance], int64(a.on), a.span.Milliseconds())
	switch a.disturbance {
	case killWorker, stopWorker:
		w.stop(a.on, a.disturbance == stopWorker)
		w.addAction(action{at: a.at + a.span, disturbance: startWorker, on: a.on})
	case startWorker:
		if w.workers[a.on] == nil {
			w.start(a.on)
		}
	case storeDown:
		w.profiles.takeDown(a.span, a.flag)
	case failOver:
		w.profiles.failOver(a)
	case eraseUser:
		w.erasures.Go(func() { w.profiles.erase(int32(a.on)) })
	default:
		w.broker.disturb(a, w.workers[min(a.on, len(w.workers)-1)])
	}
}

// addAction adds an action to those to come.
func (w *simulation) addAction(a action) {
	at, _ := slices.BinarySearchFunc(w.todo, a, func(x, y action) int { return int(x.at - y.at) })
	w.todo = slices.Insert(w.todo, at, a)
}

// disturb does something to the broker, or to a worker's connections to it.
func (b *broker) disturb(a action, k *worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch a.disturbance {
	case cutConsumer, cutPublisher:
		if k != nil {
			for _, w := range k.wires {
				if (w.purpose == "consumer") == (a.disturbance == cutConsumer) {
					w.cut(a.flag)
				}
			}
		}
	case blackholeWorker:
		if k != nil {
			for _, w := range k.wires {
				w.blackhole(time.Now().Add(a.span))
			}
		}
	case restartBroker:
		b.down = time.Now().Add(a.span)
		b.alarm = false
		for _, p := range b.conns {
			p.wire.cut(a.flag)
		}
	case cancelConsumers:
		for _, c := range b.consumers {
			c.conn.out.method(c.channel, basicCancel, c.tag, uint8(1))
			c.conn.flush()
		}
		b.consumers = nil
	case raiseAlarm:
		b.setAlarm(true)
		time.AfterFunc(a.span, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.setAlarm(false)
		})
	}
}

// setAlarm tells every connection whether the broker takes messages. The caller
// holds mu.
func (b *broker) setAlarm(on bool) {
	b.alarm = on
	for _, p := range b.conns {
		if !p.open {
			continue
		}
		if on {
			p.out.method(0, connectionBlocked, "low on memory")
		} else {
			p.out.method(0, connectionFreed)
		}
		p.flush()
	}
}

// cutWires ends all of a worker's connections.
func (b *broker) cutWires(k *worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range k.wires {
		w.cut(false)
	}
}

var errRefused = errors.New("sim: connection refused")

// dial makes a connection of a worker to the broker.
func (k *worker) dial(ctx context.Context, purpose string) (net.Conn, error) {
	d := k.rng("dial "+purpose, k.life, schedule.InstantOf(time.Now()))
	if err := pause(ctx, d.Latency(20*time.Millisecond, time.Second)); err != nil {
		return nil, err
	}
	if err := k.alive(ctx); err != nil {
		return nil, err
	}
	b := k.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Now().Before(b.down) {
		return nil, errRefused
	}
	b.wires++
	id := b.wires
	w := k.newWire(purpose, "", id, time.Millisecond)
	w.up.gathers = true
	k.wires = append(k.wires, w)
	b.Note("broker", "connection of a "+purpose, int64(k.life), int64(id))
	go b.serve(w, id)
	return socket{wire: w, in: w.down, out: w.up}, nil
}

// newWire makes a connection to a server, whose number is id. Most writes take as
// long as usual.
func (w *simulation) newWire(purpose, server string, id uint64, usual time.Duration) *wire {
	direction := func(name string) *stream {
		return newStream(func() time.Duration {
			d := w.rng(server+name, id, schedule.InstantOf(time.Now()))
			return d.Latency(usual, 100*time.Millisecond)
		})
	}
	return &wire{purpose: purpose, up: direction("up"), down: direction("down")}
}
