package repeat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/causes"
	"keyfold/engine/notify"
	"keyfold/source/vector/rediscache"
)

const (
	// addedAtOnce is how many events one run of the script adds: Redis serves no other
	// client meanwhile.
	addedAtOnce = 200
	// maxWaiting is how many calls of Confirmed wait to be written; more are dropped, and
	// their repeats are looked up in the ledger or published again.
	maxWaiting = 1000
)

// Store is the memory in Redis. It is safe for concurrent use. Close ends it.
type Store struct {
	config  Config
	client  redis.UniversalClient
	circuit *breaker.Breaker
	reads   *breaker.CallGroup
	writes  *breaker.CallGroup
	stats   Stats
	waiting chan []notify.Posting
	life    context.Context // ends with Close
	stop    context.CancelFunc
	writer  sync.WaitGroup

	mu   sync.Mutex
	seen generations
}

// New returns a store over Redis, which may be away. log is told when it goes and comes.
func New(config Config, log *slog.Logger) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, engine.ConfigurationError("redis", err)
	}
	client, err := rediscache.Connect(urlSetting, config.URL, config.Timeout)
	if err != nil {
		return nil, err
	}
	log = log.With("component", "notify")
	s := &Store{config: config, client: client, waiting: make(chan []notify.Posting, maxWaiting)}
	s.circuit, err = breaker.New(config.Breaker, s.probe, func(state breaker.State) {
		if state.Open {
			log.Warn("Redis is bypassed: PostgreSQL is asked for repeats", slog.Any("error", state.Cause),
				slog.String("hint", causes.Hint(state.Cause, "no notification waits for it")))
			return
		}
		log.Info("Redis is asked for repeats again")
	})
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	s.reads, s.writes = s.circuit.Group(), s.circuit.Group()
	s.life, s.stop = context.WithCancel(context.Background())
	s.writer.Go(s.write)
	return s, nil
}

// Close writes no more, and closes all connections. No call may follow.
func (s *Store) Close() error {
	s.stop()
	s.writer.Wait()
	s.circuit.Close()
	return s.client.Close()
}

// State returns whether Redis is bypassed, since when and why.
func (s *Store) State() breaker.State { return s.circuit.State() }

// probe adds nothing to the filter, as a write would add events, and loads the script.
func (s *Store) probe(ctx context.Context) error { return s.add(ctx, nil) }

func key(id uuid.UUID) string { return "npe:idem:" + id.String() }

func value(p notify.Posting) string { return p.Content.String() + " " + p.User }

// Lookup answers for each event, in one round trip and within the timeout.
func (s *Store) Lookup(ctx context.Context, events []notify.Posting) []notify.Repeat {
	answers := make([]notify.Repeat, len(events))
	if s.circuit.State().Open {
		s.stats.away.Add(int64(len(events)))
		return answers
	}
	bounded, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	s.reads.Begin()
	err := s.look(bounded, events, answers)
	if ctx.Err() != nil {
		s.reads.Leave()
	} else {
		s.reads.End(err)
	}
	if err != nil {
		s.stats.away.Add(int64(len(events)))
		return make([]notify.Repeat, len(events))
	}
	for _, answer := range answers {
		s.stats.count(answer)
	}
	return answers
}

// blocksOf are the replies to the reads of an event's block, one for each generation.
type blocksOf []*redis.StringCmd

// look reads keys, blocks and then the hash: an event that was added to a generation that
// is not known here is seen in the hash, and all that have no key are unknown then.
func (s *Store) look(ctx context.Context, events []notify.Posting, answers []notify.Repeat) error {
	s.mu.Lock()
	seen := s.seen
	s.mu.Unlock()
	pipeline := s.client.Pipeline()
	keys := make([]*redis.StringCmd, len(events))
	blocks := make([]blocksOf, len(events))
	for i := range events {
		keys[i] = pipeline.Get(ctx, key(events[i].EventID))
		at := spotOf(events[i].EventID)
		for name, n := range seen.blocks {
			from := int64(at.block%n) * blockBytes
			blocks[i] = append(blocks[i], pipeline.GetRange(ctx, bloomKey+":"+name, from, from+blockBytes-1))
		}
	}
	hash := pipeline.HGetAll(ctx, bloomKey)
	if _, err := pipeline.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return explained(err)
	}
	if hash.Err() != nil {
		return explained(hash.Err())
	}
	now := readGenerations(hash.Val())
	s.saw(now)
	for i := range events {
		got, err := keys[i].Result()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			return explained(err)
		case err == nil && got == value(events[i]) && events[i].Content != uuid.Nil:
			answers[i] = notify.RepeatKnown
		case err != nil && len(now.blocks) > 0 && now.same(seen) && blocks[i].lack(spotOf(events[i].EventID)):
			answers[i] = notify.RepeatNew
		}
	}
	return nil
}

// explained gives an error of Redis its cause, where that is known.
func explained(err error) error {
	id := rediscache.CauseOf(err)
	if err = fmt.Errorf("redis: %w", err); id == "" {
		return err
	}
	return causes.Explain(causes.Repeats, id, err)
}

// lack reports whether an event is certainly in none of its blocks. A generation that
// was evicted says nothing.
func (b blocksOf) lack(at spot) bool {
	return !slices.ContainsFunc(b, func(reply *redis.StringCmd) bool {
		block, err := reply.Result()
		return err != nil || len(block) != blockBytes || at.in(block)
	})
}

func (s *Store) saw(now generations) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = now
}

// Confirmed remembers events that the broker has confirmed. It does not wait for Redis.
func (s *Store) Confirmed(events []notify.Posting) {
	select {
	case s.waiting <- events:
	default:
		s.stats.dropped.Add(int64(len(events)))
	}
}

// write writes what was confirmed until Close.
func (s *Store) write() {
	for {
		select {
		case <-s.life.Done():
			return
		case events := <-s.waiting:
			events = s.gather(events)
			for part := range slices.Chunk(events, addedAtOnce) {
				s.remember(part)
			}
		}
	}
}

// gather adds what waits too, so that many small calls are one write.
func (s *Store) gather(events []notify.Posting) []notify.Posting {
	for len(events) < addedAtOnce {
		select {
		case more := <-s.waiting:
			events = slices.Concat(events, more)
		default:
			return events
		}
	}
	return events
}

// remember writes events once.
func (s *Store) remember(events []notify.Posting) {
	if s.circuit.State().Open {
		s.stats.dropped.Add(int64(len(events)))
		return
	}
	ctx, cancel := context.WithTimeout(s.life, s.config.Timeout)
	defer cancel()
	s.writes.Begin()
	err := s.add(ctx, events)
	if s.life.Err() != nil {
		s.writes.Leave()
		return
	}
	s.writes.End(err)
	if err != nil {
		s.stats.dropped.Add(int64(len(events)))
		return
	}
	s.stats.written.Add(int64(len(events)))
}

// add writes filter and keys. The library does not load a script inside a pipeline: it is
// loaded where Redis does not know it, on a new server and after a restart.
func (s *Store) add(ctx context.Context, events []notify.Posting) error {
	args := []any{s.config.Capacity, int(s.config.Full * 10_000), s.config.Window.Milliseconds(), hashes}
	pipeline := s.client.Pipeline()
	for _, e := range events {
		args = spotOf(e.EventID).append(args)
		pipeline.SetNX(ctx, key(e.EventID), value(e), s.config.Window)
	}
	added := bloomAdd.EvalSha(ctx, pipeline, []string{bloomKey}, args...)
	_, err := pipeline.Exec(ctx)
	if redis.HasErrorPrefix(added.Err(), "NOSCRIPT") {
		if err = bloomAdd.Load(ctx, s.client).Err(); err == nil {
			added = bloomAdd.EvalSha(ctx, s.client, []string{bloomKey}, args...)
			err = added.Err()
		}
	}
	if err != nil {
		return explained(err)
	}
	fields := map[string]string{}
	if words, err := added.StringSlice(); err == nil {
		for pair := range slices.Chunk(words, 2) {
			fields[pair[0]] = pair[len(pair)-1]
		}
		s.saw(readGenerations(fields))
	}
	return nil
}
