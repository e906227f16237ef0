package notifications

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/metric"
	"keyfold/engine/profile"
	"keyfold/service/daemon"
	"keyfold/service/notify/score"
	"keyfold/service/profile/embedding"
	"keyfold/sink/mongodb"
	"keyfold/source/vector"
)

// taste is what a worker reads the taste terms of scores with.
type taste struct {
	embedding *embedding.Embedding
	scores    *score.Scores
	store     *profileStore
}

// withTaste calls do with the taste terms, nil where NOTIFY_AI is off. The profile store
// and the embedding API need not be there: decisions are made without them.
func withTaste(a *app.App, do func(*taste) error) error {
	if a.Notify.AI != "on" {
		return do(nil)
	}
	c := score.DefaultConfig()
	c.History, c.Model, c.Faint = a.Config.Processor.History, a.Config.Processor.Model, a.Config.Processor.Weights.Faint()
	c.ProfileBytes = min(c.ProfileBytes, a.Config.Memory/8)
	vectors := a.Vectors
	vectors.Effect = "scores are made without the users' taste"
	vectors.PhraseTimeout = c.Patience
	vectors.Phrases.CacheBytes = min(vector.DefaultConfig().CacheBytes, a.Config.Memory/16)
	return a.WithEmbedding(vectors, 0, func(e *embedding.Embedding) error {
		store := &profileStore{}
		scores, err := score.New(c, e.Phrases, store, a.Log)
		if err != nil {
			return err
		}
		stop := store.openWhenThere(a)
		err = do(&taste{e, scores, store})
		return errors.Join(err, stop())
	})
}

func (t *taste) register(set *metric.Set) {
	t.scores.Register(set)
	t.embedding.Register(set)
}

func (t *taste) notes() []string {
	notes := t.scores.Notes()
	if fault := t.store.fault.Load(); fault != nil {
		notes = append(notes, "scores are made without the users' taste: "+(*fault).Error())
	}
	return notes
}

// profileStore is MongoDB, as soon as it is there.
type profileStore struct {
	opened atomic.Pointer[mongodb.Store] // nil: not yet
	fault  atomic.Pointer[error]         // why it is not opened at all; nil: it is, or will be
}

var errNotOpened = fmt.Errorf("the profile store is %w: it was not reached since the start", engine.ErrAway)

// Load reads profiles.
func (p *profileStore) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	if store := p.opened.Load(); store != nil {
		return store.Load(ctx, users)
	}
	return nil, errNotOpened
}

// openWhenThere connects in the background. A fault of the settings is logged and
// noted: it ends no decisions. stop closes what was opened.
func (p *profileStore) openWhenThere(a *app.App) (stop func() error) {
	ctx, cancel := context.WithCancel(a.Ctx)
	var work sync.WaitGroup
	work.Go(func() {
		store, err := daemon.AwaitStore(ctx, a.Log, a.OpenChecked)
		switch {
		case err == nil:
			p.opened.Store(store)
		case ctx.Err() == nil:
			p.fault.Store(&err)
			a.Log.With("component", "notify").Error("scores are made without the users' taste", slog.Any("error", err),
				slog.String("hint", "do what the error says, and restart the worker"))
		}
	})
	return func() error {
		cancel()
		work.Wait()
		if store := p.opened.Load(); store != nil {
			return store.Close()
		}
		return nil
	}
}
