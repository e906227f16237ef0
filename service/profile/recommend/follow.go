package recommend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/profile"
	"keyfold/engine/terse"
	"keyfold/source/catalog/index"
)

// Catalogue is where products are stored.
type Catalogue interface {
	// ProductStreams returns all products, in streams that may be read beside each other.
	ProductStreams(ctx context.Context) []iter.Seq2[profile.Product, error]
	Products(ctx context.Context, ids []int32) ([]profile.Product, error)
	// ProductTimes yields, in any order, when each product was written last. It reads no
	// vector.
	ProductTimes(ctx context.Context) iter.Seq2[profile.ProductTime, error]
}

// Follower keeps an index equal to the stored catalogue. It compares the times of all
// products with those it knows, so that it depends on no clock; a writer that leaves
// updated_at as it is goes unnoticed until the next start.
type Follower struct {
	store    Catalogue
	index    *index.Index
	log      *slog.Logger
	interval time.Duration
	onRead   func(bytes int64)

	times  map[int32]engine.Millis // of what was read
	listed time.Duration           // how long the last listing of times took
	fault  terse.Fault

	mu     sync.Mutex
	err    error     // of the last look
	looked time.Time // before the last look that succeeded; zero: the catalogue was never read
}

// FollowInterval is how often the catalogue is looked at. A listing of times that takes long
// is followed by a pause of ten times as long; reading what has changed, and failures, make no
// pause longer.
const FollowInterval = 2 * time.Second

// readChunk is how many changed products are read at once.
const readChunk = 256

// NewFollower returns a follower, which [Follower.Run] starts.
func NewFollower(store Catalogue, x *index.Index, log *slog.Logger) *Follower {
	return &Follower{store: store, index: x, log: log, interval: FollowInterval, onRead: func(int64) {}}
}

// OnRead has a function called with the memory of the products' vectors after each look, before
// [Follower.Run] begins.
func (f *Follower) OnRead(call func(bytes int64)) { f.onRead = call }

// Read reads the catalogue once.
func (f *Follower) Read(ctx context.Context) error { return f.look(ctx) }

// Run reads the catalogue, then follows it until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		err := f.look(ctx)
		if ctx.Err() != nil {
			return
		}
		f.note(began, err)
		pause := f.interval
		if err == nil {
			f.onRead(f.index.Bytes())
			pause = max(pause, 10*f.listed)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (f *Follower) note(began time.Time, err error) {
	f.mu.Lock()
	f.err = err
	if err == nil {
		f.looked = began
	}
	f.mu.Unlock()
	if err != nil {
		if f.fault.Begins(err) {
			f.log.Warn("catalogue cannot be read: answers have the products as they were", slog.Any("error", err), slog.String("hint", "check that the store answers; what was read before goes on being recommended"))
		}
	} else if lasted, was := f.fault.Ends(); was {
		f.log.Info("catalogue is read again", slog.Duration("away_for", lasted))
	}
}

// Ready returns why no product can be found, nil once the catalogue was read.
func (f *Follower) Ready() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.looked.IsZero() {
		return nil
	}
	return errors.Join(errors.New("the catalogue is being read"), f.err)
}

// Fault returns why the last look at the catalogue failed, nil where it succeeded.
func (f *Follower) Fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Age returns how long ago the catalogue was looked at, 0 where it never was.
func (f *Follower) Age() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.looked.IsZero() {
		return 0
	}
	return time.Since(f.looked)
}

// look brings the index to the state of the store.
func (f *Follower) look(ctx context.Context) error {
	began := time.Now()
	times := make(map[int32]engine.Millis, len(f.times))
	for t, err := range f.store.ProductTimes(ctx) {
		if err != nil {
			return fmt.Errorf("list products: %w", err)
		}
		times[t.ID] = t.WrittenAt
	}
	f.listed = time.Since(began)
	if f.times == nil {
		return f.fill(ctx, times)
	}
	var changed, gone []int32
	for id, at := range times {
		if known, ok := f.times[id]; !ok || known != at {
			changed = append(changed, id)
		}
	}
	for id := range f.times {
		if _, ok := times[id]; !ok {
			gone = append(gone, id)
		}
	}
	f.index.Remove(gone...)
	for _, id := range gone {
		delete(f.times, id)
	}
	for chunk := range slices.Chunk(changed, readChunk) {
		if err := f.read(ctx, chunk, times); err != nil {
			return err
		}
	}
	return nil
}

// fill reads the whole catalogue. What is written meanwhile has a later time than the one
// that was noted before.
func (f *Follower) fill(ctx context.Context, times map[int32]engine.Millis) error {
	all := func(yield func(profile.Product, error) bool) {
		for _, stream := range f.store.ProductStreams(ctx) {
			for p, err := range stream {
				if !yield(p, err) {
					return
				}
			}
		}
	}
	unusable, err := f.index.Fill(all)
	if err != nil {
		return fmt.Errorf("read products: %w", err)
	}
	f.times = times
	f.log.Info("catalogue in memory", slog.Int("products", f.index.Len()), slog.Int("faults", unusable), slog.Int64("bytes", f.index.Bytes()))
	return nil
}

// read reads some products, and takes those out that are there no more.
func (f *Follower) read(ctx context.Context, ids []int32, times map[int32]engine.Millis) error {
	products, err := f.store.Products(ctx, ids)
	if err != nil {
		return fmt.Errorf("read products: %w", err)
	}
	found := make(map[int32]bool, len(products))
	for i := range products {
		found[products[i].ID] = true
	}
	f.index.Put(products...)
	for _, id := range ids {
		if !found[id] {
			f.index.Remove(id)
		}
		f.times[id] = times[id]
	}
	return nil
}

// Over returns a recommender on a stored catalogue, and what reads it into memory.
func Over(config Config, ports Ports, store Catalogue, log *slog.Logger) (*Recommender, *Follower, error) {
	products := index.New(ports.Laws.Dimensions, ports.Laws.Model)
	ports.Products = InMemory{products}
	r, err := New(config, ports)
	return r, NewFollower(store, products, log), err
}

// Register adds the follower's series to set.
func (f *Follower) Register(set *metric.Set) {
	set.Gauge("keyfold_recommend_products", "Products in memory that can be recommended.", func() float64 { return float64(f.index.Len()) })
	set.Gauge("keyfold_recommend_products_bytes", "Memory of the products' vectors.", func() float64 { return float64(f.index.Bytes()) })
	set.Gauge("keyfold_recommend_catalogue_fault", "1 while the catalogue cannot be read: answers have the products as they were; the log and /readyz say why.", func() float64 {
		if f.Fault() != nil {
			return 1
		}
		return 0
	})
	set.Gauge("keyfold_recommend_catalogue_age_seconds", "How long ago the catalogue was looked at; 0 before the first look.", func() float64 { return f.Age().Seconds() })
}
