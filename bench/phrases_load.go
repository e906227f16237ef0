package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"keyfold/engine"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
	"keyfold/source/vector/openai"
)

// Kinds of events, by whether they may have to wait for the embedding API.
const (
	search = iota // of users who also view products
	beside        // product views of the same users
	browse        // product views of users who never search
)

var kinds = [...]string{"searches", "product events of searchers", "product events of others"}

// phraseLoad publishes searches and product events and reads when each reached
// its profile.
type phraseLoad struct {
	servers  *servers
	users    int
	products []engine.Product
	zipf     *rand.Zipf
	drawn    map[uint64]bool
	marks    int
	sent     map[engine.AppliedID]sentEvent

	latency map[string]*[len(kinds)]*hdrhistogram.Histogram // by phase, in milliseconds
	missing int
	dead    int // in the dead-letter queue at begin
	letters int // since then
}

type sentEvent struct {
	at    time.Time
	phase string
	kind  int
}

func newPhraseLoad(s *servers, phrases, users int) *phraseLoad {
	return &phraseLoad{
		servers: s, users: users, products: sample.Products(), drawn: map[uint64]bool{}, sent: map[engine.AppliedID]sentEvent{},
		zipf: rand.NewZipf(rand.New(rand.NewPCG(uint64(phrases), 1)), 1.1, 8, uint64(phrases-1)),
	}
}

// begin forgets what was sent before.
func (l *phraseLoad) begin() {
	clear(l.sent)
	l.dead += l.letters
	l.letters = 0
}

// event makes the next event of a kind.
func (l *phraseLoad) event(kind int) ([]byte, engine.Event, error) {
	l.marks++
	now := time.Now().UTC()
	user := 1 + rand.IntN(l.users)
	if kind == browse {
		user += l.users
	}
	what := fmt.Sprintf(`"event_type":"product_view","product_id":%d`, l.products[rand.IntN(len(l.products))].ID)
	if kind == search {
		n := l.zipf.Uint64()
		l.drawn[n] = true
		what = fmt.Sprintf(`"event_type":"search","search_phrase":"thing number %d"`, n)
	}
	body := fmt.Appendf(nil, `{"user_id":%d,%s,"occurred_at":%q,"message_id":"bench-%d-%p-%d"}`,
		user, what, now.Format("2006-01-02T15:04:05.000-07:00"), os.Getpid(), l, l.marks)
	e, err := engine.ParseEvent(body, now)
	return body, e, err
}

func (l *phraseLoad) distinct() int { return len(l.drawn) }

// publish sends one event after the other, each at its time.
func (l *phraseLoad) publish(ctx context.Context, pause, duration time.Duration, phase string) error {
	p := rabbit.NewPublisher(l.servers.dsn, rabbit.ThisProcess("bench"), "publisher", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	defer p.Close(ctx)
	names := rabbit.DefaultNames()
	began := time.Now()
	for i := range int(duration / pause) {
		time.Sleep(time.Until(began.Add(time.Duration(i) * pause)))
		kind := i % len(kinds)
		body, e, err := l.event(kind)
		if err != nil {
			return err
		}
		l.sent[e.Digest.ID()] = sentEvent{time.Now(), phase, kind}
		if err := p.Publish(ctx, []rabbit.Message{names.EventMessage(body, &e)})[0]; err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	return nil
}

// preload sends searches at once.
func (l *phraseLoad) preload(ctx context.Context, n int, phase string) error {
	p := rabbit.NewPublisher(l.servers.dsn, rabbit.ThisProcess("bench"), "publisher", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	defer p.Close(ctx)
	names := rabbit.DefaultNames()
	messages := make([]rabbit.Message, n)
	for i := range messages {
		body, e, err := l.event(search)
		if err != nil {
			return err
		}
		l.sent[e.Digest.ID()] = sentEvent{time.Now(), phase, search}
		messages[i] = names.EventMessage(body, &e)
	}
	for part := range slices.Chunk(messages, 1000) {
		for _, err := range p.Publish(ctx, part) {
			if err != nil {
				return fmt.Errorf("publish: %w", err)
			}
		}
	}
	return nil
}

// await waits until every event is in a profile or a dead letter, for five
// minutes at most.
func (l *phraseLoad) await(ctx context.Context) error {
	c := mongodb.DefaultConfig()
	c.URI, c.Model = l.servers.mongo, openai.DefaultModel
	store, err := mongodb.Open(ctx, c)
	if err != nil {
		return err
	}
	defer store.Close()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		letters, err := rabbit.Depth(ctx, l.servers.dsn, rabbit.DefaultNames().DeadLetters)
		if err != nil {
			return err
		}
		l.letters = letters - l.dead
		if err := l.read(ctx, store); err != nil {
			return err
		}
		if l.missing == l.letters {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d events are in no profile, %d of them are dead letters", l.missing, len(l.sent), l.letters)
		}
	}
}

// complete reports more dead letters than that.
func (l *phraseLoad) complete(dead int) error {
	if l.letters > dead {
		return fmt.Errorf("%d dead letters", l.letters)
	}
	return nil
}

func (l *phraseLoad) read(ctx context.Context, store *mongodb.Store) error {
	l.latency, l.missing = map[string]*[len(kinds)]*hdrhistogram.Histogram{}, len(l.sent)
	for p, err := range store.AllProfiles(ctx) {
		if err != nil {
			return err
		}
		for id, group := range p.Applied.All() {
			s, ok := l.sent[id]
			if !ok {
				continue
			}
			l.missing--
			if err := l.histogram(s.phase)[s.kind].RecordValue(max(1, group.At.Time().Sub(s.at).Milliseconds())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *phraseLoad) histogram(phase string) *[len(kinds)]*hdrhistogram.Histogram {
	of := l.latency[phase]
	if of == nil {
		of = new([len(kinds)]*hdrhistogram.Histogram)
		for i := range of {
			of[i] = hdrhistogram.New(1, 600_000, 3)
		}
		l.latency[phase] = of
	}
	return of
}

// phraseFigures are seconds from event to profile, by kind.
type phraseFigures [len(kinds)]struct{ p50, p99 float64 }

func (l *phraseLoad) figures(phase string) (f phraseFigures) {
	for kind, h := range l.histogram(phase) {
		f[kind].p50, f[kind].p99 = seconds(h.ValueAtQuantile(50)), seconds(h.ValueAtQuantile(99))
	}
	return f
}

// medianFigures returns a kind's figures in the run of the median p99.
func medianFigures(runs []phraseFigures, kind int) struct{ p50, p99 float64 } {
	runs = slices.Clone(runs)
	slices.SortFunc(runs, func(a, b phraseFigures) int { return int((a[kind].p99 - b[kind].p99) * 1e6) })
	return runs[len(runs)/2][kind]
}
