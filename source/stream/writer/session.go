package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/source/rabbit"
	"keyfold/source/stream"
)

// session is publishing on one set of connections, until one of them is lost.
type session struct {
	streams []string // of the newest generation, by partition
	conns   map[string]*stream.Conn
	looked  time.Time // at the broker's streams; under the writer's turn

	ending sync.Once
	reason error // set before ended is closed
	ended  chan struct{}

	mu         sync.Mutex
	publishers map[place]*publisher
}

// place is what numbers rise in.
type place struct{ stream, reference string }

// newest returns the streams of the newest generation that the broker has. One without its
// partition 0 is in the making: setup makes that last.
func newest(ctx context.Context, config Config) (names []string, err error) {
	found, err := stream.Find(ctx, config.Client, config.Names)
	if err != nil {
		return nil, err
	}
	generation := 0
	for _, s := range found { // in the order of generations and partitions
		if s.Partition == 0 {
			names, generation = nil, s.Generation
		}
		if s.Generation == generation && s.Partition == len(names) {
			names = append(names, config.Names.StreamQueue(s))
		}
	}
	if len(names) == 0 {
		return nil, stream.Missing(errUnfinished)
	}
	return names, nil
}

var errUnfinished = errors.New("streams: none of the broker's generations is complete")

func open(ctx context.Context, config Config, streams []string) (*session, error) {
	conns, err := stream.DialLeaders(ctx, config.Client, streams...)
	if err != nil {
		return nil, err
	}
	s := &session{streams: streams, conns: conns, looked: time.Now(), ended: make(chan struct{}), publishers: map[place]*publisher{}}
	for _, c := range s.distinct() {
		go func() {
			<-c.Done()
			s.end(c.Err())
		}()
	}
	return s, nil
}

// distinct returns each connection once.
func (s *session) distinct() (all []*stream.Conn) {
	for _, c := range s.conns {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

func (s *session) has(streams []string) bool { return slices.Equal(s.streams, streams) }

// end ends the session. The first reason counts.
func (s *session) end(reason error) {
	s.ending.Do(func() {
		s.reason = reason
		close(s.ended)
	})
}

func (s *session) over() bool { return rabbit.IsClosed(s.ended) }

// close closes the connections of a session that has ended.
func (s *session) close(ctx context.Context) {
	for _, c := range s.distinct() {
		c.Close(ctx)
	}
}

// publisher sends what has one reference to one stream.
type publisher struct {
	*stream.Publisher

	mu      sync.Mutex
	waiting map[uint64]*answer // by number
}

// answer is the broker's for a group.
type answer struct {
	came chan struct{}
	err  error // set before came is closed
}

// orElse returns the answer, or reason where none has come.
func (a *answer) orElse(reason error) error {
	if rabbit.IsClosed(a.came) {
		return a.err
	}
	return reason
}

var errNotHere = errors.New("streams: the broker has other streams than the group is for")

// send writes a group. It returns what will be the broker's answer, or why the group was not
// sent.
func (s *session) send(ctx context.Context, group *Group) (*answer, error) {
	if s.over() {
		return nil, fmt.Errorf("streams: publish: %w", s.reason)
	}
	p, err := s.publisher(ctx, place{group.Stream, group.Reference})
	if err != nil {
		return nil, err
	}
	a := p.expect(group.Number)
	err = p.PublishGroup(group.Number, group.Messages)
	if err == nil {
		return a, nil
	}
	p.forget(group.Number)
	if errors.Is(err, stream.ErrTooLarge) {
		if len(group.Messages) == 1 {
			return nil, engine.PermanentError("too_large", err)
		}
		return nil, engine.ConfigurationError("frame_too_small", err)
	}
	s.end(err)
	return nil, unknown(group, err) // a part of the frame may be written
}

func unknown(group *Group, err error) error {
	return fmt.Errorf("streams: publish to %s: %w: %w", group.Stream, engine.ErrUnknown, err)
}

// publisher returns the publisher of a place, and declares it where it is the first time.
func (s *session) publisher(ctx context.Context, at place) (*publisher, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.publishers[at]; p != nil {
		return p, nil
	}
	conn := s.conns[at.stream]
	if conn == nil {
		return nil, errNotHere
	}
	p := &publisher{waiting: map[uint64]*answer{}}
	var err error
	p.Publisher, err = conn.DeclarePublisher(ctx, stream.Publishing{Stream: at.stream, Reference: at.reference, Handle: p.handle})
	if err != nil {
		s.end(err)
		return nil, err
	}
	s.publishers[at] = p
	go func() {
		<-p.Done()
		s.end(p.Err())
	}()
	return p, nil
}

func (p *publisher) expect(number uint64) *answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &answer{came: make(chan struct{})}
	p.waiting[number] = a
	return a
}

func (p *publisher) forget(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, number)
}

// handle takes the broker's answers.
func (p *publisher) handle(o stream.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, number := range o.IDs {
		if a := p.waiting[number]; a != nil {
			a.err = o.Err
			close(a.came)
			delete(p.waiting, number)
		}
	}
}
