package rabbit

import (
	"errors"
	"strconv"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// membership is a worker's place among the workers that share the partitions. The broker
// is the only judge of it:
//
//   - A worker's number is an exclusive queue on its connection. The broker refuses a
//     second connection the same queue, and deletes it with the connection, so that a
//     number has one worker, and is free some milliseconds after that has ended.
//   - The number of workers is that of the layout queue's consumers: each worker consumes
//     it, and it never holds a message. A partition queue cannot say: of a queue with a
//     single active consumer the broker counts that one only (seen on 4.0.5).
type membership struct {
	session *session
	channel *amqp.Channel // for counting, and consuming the layout queue
	number  int
	workers int // the last count that was confirmed

	last   int // count
	looks  int // in a row that gave it
	vacant int // looks in a row that found the number to be too high
}

// A count is believed when so many looks in a row gave it: a worker that connects again
// is away for a moment. A number that is too high is given up after some more. Workers that are
// started together have found each other after so many looks that a count stays.
const (
	looksToBelieve  = 2
	looksUntilLower = 2
	looksToStay     = 5
)

// join takes a number and has the worker counted.
func (s *session) join() (*membership, error) {
	m := &membership{session: s}
	var err error
	if m.channel, err = s.conn.Channel(); err != nil {
		return nil, Fault("open a channel", err)
	}
	if m.last, err = m.count(); err != nil {
		return nil, err
	}
	// Numbers from the count on are those that are most likely free: each one that is not
	// costs a channel, and a line in the broker's log.
	if m.number, err = m.take(m.last, m.last+maxNumbers); err != nil {
		return nil, err
	}
	if err := m.subscribe(); err != nil {
		return nil, err
	}
	if m.workers, err = m.count(); err != nil {
		return nil, err
	}
	m.last, m.looks = m.workers, looksToBelieve
	return m, nil
}

// subscribe has the worker counted. Where the broker ends that, it ends the session: the
// others would share this worker's partitions out, and it would keep them.
func (m *membership) subscribe() error {
	s := m.session
	defer s.bounded()()
	s.watch(m.channel, new(atomic.Bool))
	queue := s.config.Names.LayoutExchange()
	dropped, err := m.channel.Consume(queue, s.config.Identity.tag(s.generation, 0, 0), true, false, false, false, nil)
	if err != nil {
		return s.config.Names.Fault("consume from queue "+queue, err)
	}
	s.watches.Go(func() {
		for range dropped {
			continue
		}
	})
	return nil
}

// maxNumbers is how many numbers are tried.
const maxNumbers = 256

var errNoNumber = errors.New("rabbitmq: no worker number is free")

// take locks the first free number from first to below end.
func (m *membership) take(first, end int) (int, error) {
	s := m.session
	defer s.bounded()()
	for n := first; n < end; n++ {
		channel, err := s.conn.Channel()
		if err != nil {
			return 0, Fault("open a channel", err)
		}
		_, err = channel.QueueDeclare(m.lock(n), false, false, true, false, nil)
		_ = channel.Close()
		if err == nil {
			return n, nil
		}
		if refusal, ok := errors.AsType[*amqp.Error](err); !ok || refusal.Code != amqp.ResourceLocked {
			return 0, s.config.Names.Fault("declare queue "+m.lock(n), err)
		}
	}
	return 0, errNoNumber
}

func (m *membership) lock(n int) string {
	return m.session.config.Names.Queue + ".worker." + strconv.Itoa(n)
}

// count asks for the number of workers.
func (m *membership) count() (int, error) {
	s := m.session
	defer s.bounded()()
	queue := s.config.Names.LayoutExchange()
	q, err := m.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return 0, s.config.Names.Fault("look at queue "+queue, err)
	}
	return q.Consumers, nil
}

// look counts the workers, and takes a lower number where this one is too high for them.
func (m *membership) look() error {
	if m.session == nil {
		return nil // its partitions are fixed
	}
	n, err := m.count()
	if err != nil {
		return err
	}
	if n = max(n, 1); n != m.last {
		m.last, m.looks = n, 0
	}
	if m.looks++; m.looks < looksToBelieve {
		return nil
	}
	m.workers = n
	if m.number < n {
		m.vacant = 0
		return nil
	}
	if m.vacant++; m.vacant < looksUntilLower {
		return nil
	}
	m.vacant = 0
	return m.lower()
}

// lower takes a number that is free and below the count, if there is one.
func (m *membership) lower() error {
	n, err := m.take(0, m.workers)
	if errors.Is(err, errNoNumber) {
		return nil // a worker that is starting has it
	}
	if err != nil {
		return err
	}
	before := m.number
	m.number = n
	_, err = m.channel.QueueDelete(m.lock(before), false, false, false)
	return err
}

// stays reports whether no worker has come or gone of late.
func (m *membership) stays() bool { return m.session == nil || m.looks >= looksToStay }

// placed reports whether the number is one of those that share the partitions.
func (m *membership) placed() bool { return m.number < m.workers }
