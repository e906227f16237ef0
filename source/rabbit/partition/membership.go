package partition

import (
	"errors"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/source/rabbit"
)

// Membership is a worker's place among the workers that share the partitions. The broker
// is the only judge of it:
//
//   - A worker's number is an exclusive queue on its connection. The broker refuses a
//     second connection the same queue, and deletes it with the connection, so that a
//     number has one worker, and is free some milliseconds after that has ended.
//   - The number of workers is that of the layout queue's consumers: each worker consumes
//     it, and it never holds a message. A partition queue cannot say: of a queue with a
//     single active consumer the broker counts that one only (seen on 4.0.5).
type Membership struct {
	session Session
	channel *amqp.Channel // for counting, and consuming the layout queue; nil: the partitions are fixed
	Number  int
	Workers int // the last count that was confirmed

	last   int // count
	polls  int // in a row that gave it
	vacant int // polls in a row that found the number to be too high
}

// Session is what a membership needs of a consumer's session.
type Session struct {
	Conn  *amqp.Connection
	Names rabbit.Names
	Tag   string // of the consumer that has the worker counted
	// Bounded ends the connection where release is not called within the time for connecting.
	Bounded func() (release func() bool)
	Watch   func(*amqp.Channel) // ends the session with the channel
	Go      func(func())        // has work run until the connection ends
}

// A count is believed after pollsToBelieve polls in a row that gave it: a worker that connects
// again is away for a moment. A number that is too high is given up after pollsUntilLower more.
// Workers that are started together have found each other after pollsToSettle with one count.
const (
	pollsToBelieve  = 2
	pollsUntilLower = 2
	pollsToSettle   = 5
)

// Alone returns the membership of a worker that shares its partitions with no other.
func Alone() *Membership { return &Membership{Workers: 1} }

// Join takes a number and has the worker counted.
func Join(s Session) (*Membership, error) {
	m := &Membership{session: s}
	var err error
	if m.channel, err = s.Conn.Channel(); err != nil {
		return nil, rabbit.Fault("open a channel", err)
	}
	if m.last, err = m.count(); err != nil {
		return nil, err
	}
	// Numbers from the count on are those that are most likely free: each one that is not
	// costs a channel, and a line in the broker's log.
	if m.Number, err = m.take(m.last, m.last+maxNumbers); err != nil {
		return nil, err
	}
	if err := m.subscribe(); err != nil {
		return nil, err
	}
	if m.Workers, err = m.count(); err != nil {
		return nil, err
	}
	m.last, m.polls = m.Workers, pollsToBelieve
	return m, nil
}

// subscribe has the worker counted. Where the broker ends that, it ends the session: the
// others would share this worker's partitions out, and it would keep them.
func (m *Membership) subscribe() error {
	s := m.session
	defer s.Bounded()()
	s.Watch(m.channel)
	queue := s.Names.LayoutExchange()
	dropped, err := m.channel.Consume(queue, s.Tag, true, false, false, false, nil)
	if err != nil {
		return s.Names.Fault("consume from queue "+queue, err)
	}
	s.Go(func() {
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
func (m *Membership) take(first, end int) (int, error) {
	s := m.session
	defer s.Bounded()()
	for n := first; n < end; n++ {
		channel, err := s.Conn.Channel()
		if err != nil {
			return 0, rabbit.Fault("open a channel", err)
		}
		_, err = channel.QueueDeclare(m.lock(n), false, false, true, false, nil)
		_ = channel.Close()
		if err == nil {
			return n, nil
		}
		if refusal, ok := errors.AsType[*amqp.Error](err); !ok || refusal.Code != amqp.ResourceLocked {
			return 0, s.Names.Fault("declare queue "+m.lock(n), err)
		}
	}
	return 0, errNoNumber
}

func (m *Membership) lock(n int) string {
	return m.session.Names.Queue + ".worker." + strconv.Itoa(n)
}

// count asks for the number of workers.
func (m *Membership) count() (int, error) {
	s := m.session
	defer s.Bounded()()
	queue := s.Names.LayoutExchange()
	q, err := m.channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		return 0, s.Names.Fault("look at queue "+queue, err)
	}
	return q.Consumers, nil
}

// Poll counts the workers, and takes a lower number where this one is too high for them.
func (m *Membership) Poll() error {
	if m.channel == nil {
		return nil // its partitions are fixed
	}
	n, err := m.count()
	if err != nil {
		return err
	}
	if n = max(n, 1); n != m.last {
		m.last, m.polls = n, 0
	}
	if m.polls++; m.polls < pollsToBelieve {
		return nil
	}
	m.Workers = n
	if m.Number < n {
		m.vacant = 0
		return nil
	}
	if m.vacant++; m.vacant < pollsUntilLower {
		return nil
	}
	m.vacant = 0
	return m.lower()
}

// lower takes a number that is free and below the count, if there is one.
func (m *Membership) lower() error {
	n, err := m.take(0, m.Workers)
	if errors.Is(err, errNoNumber) {
		return nil // a worker that is starting has it
	}
	if err != nil {
		return err
	}
	before := m.Number
	m.Number = n
	_, err = m.channel.QueueDelete(m.lock(before), false, false, false)
	return err
}

// Settled reports whether no worker has come or gone of late.
func (m *Membership) Settled() bool { return m.channel == nil || m.polls >= pollsToSettle }

// Placed reports whether the number is one of those that share the partitions.
func (m *Membership) Placed() bool { return m.Number < m.Workers }
