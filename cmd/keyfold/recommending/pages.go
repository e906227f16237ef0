package recommending

import (
	"context"
	"errors"
	"slices"
	"sync"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/service/dashboard"
	"keyfold/service/profile/embedding"
	"keyfold/service/profile/explanation"
	"keyfold/service/profile/recommend"
	"keyfold/service/profile/users"
	"keyfold/sink/ledger/postgres"
	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
)

// Pages are where the dashboard's pages of users are read. It connects to a server when a page
// first needs it, and again where that failed.
type Pages struct {
	app *app.App
	way *embedding.Embedding // nil: the settings are not those of one

	store  *opened[*mongodb.Store]
	ledger *opened[*postgres.Ledger]

	mu sync.Mutex
	db *outbox.Database // nil: it was not opened, which takes no time
}

// NewPages returns pages that are not connected yet.
func NewPages(a *app.App) (p *Pages, err error) {
	p = &Pages{app: a, store: newOpened[*mongodb.Store](), ledger: newOpened[*postgres.Ledger]()}
	if a.Vectors.Usable() == nil {
		p.way, err = embedding.New(a.Vectors, 0, a.Log)
	}
	return p, err
}

// Close ends all connections.
func (p *Pages) Close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.way != nil {
		err = p.way.Close()
	}
	if p.db != nil {
		err = errors.Join(err, p.db.Close())
	}
	return errors.Join(err, p.store.Close(), p.ledger.Close())
}

// Users returns what the pages are read from.
func (p *Pages) Users() *dashboard.Users {
	windows := p.app.Config.Shard
	from := &dashboard.Users{
		Program: "keyfold", Window: windows.Window, Longest: windows.MaxDelay,
		Show: p.show, Explain: p.explain, Recommend: p.recommend,
	}
	if p.app.Notify.Ledger != "" {
		from.Notified = p.notified
	}
	return from
}

// within is the application under a page's bound.
func (p *Pages) within(ctx context.Context) *app.App {
	bounded := *p.app
	bounded.Ctx = ctx
	return &bounded
}

func (p *Pages) profiles(ctx context.Context) (*mongodb.Store, error) {
	return p.store.get(ctx, p.within(ctx).OpenStore)
}

// history returns the SQL history; nil: none is set.
func (p *Pages) history() (*outbox.Database, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.db == nil && p.app.Servers.SQL != "" {
		db, err := p.app.OpenDatabase()
		if err != nil {
			return nil, err
		}
		p.db = db
	}
	return p.db, nil
}

func (p *Pages) show(ctx context.Context, user int32, near, last int) (shown dashboard.Shown, err error) {
	store, err := p.profiles(ctx)
	if err != nil {
		return shown, err
	}
	profiles, err := named{store}.Load(ctx, []int32{user})
	if err != nil {
		return shown, err
	}
	events, err := p.last(ctx, user, profiles[0], last)
	if err != nil {
		shown.Note = "events are not shown: " + err.Error()
	}
	if shown.View, err = users.NewProfileView(ctx, store, user, near, 0, events); err == nil && shown.View.Profile == nil {
		shown.None = p.app.NoProfile(user).Error()
	}
	return shown, err
}

// last reads a user's last events.
func (p *Pages) last(ctx context.Context, user int32, known *profile.Profile, n int) (all []users.Event, err error) {
	if n == 0 {
		return nil, nil
	}
	db, err := p.history()
	switch {
	case err != nil:
		return nil, err
	case db == nil:
		return nil, errors.New("DATABASE_URL is not set")
	}
	events, err := explanation.NewestFromOutbox(ctx, db, user, known, p.app.Config.Processor.IDs.Retention, n)
	for _, e := range slices.Backward(events) {
		one := users.Event{Event: e.Event, State: e.State, Waits: e.State != "", Since: e.Since}
		if !one.Waits {
			one.State = users.Folded
		}
		all = append(all, one)
	}
	return all, app.DatabaseUnreached(err)
}

func (p *Pages) explain(ctx context.Context, known *profile.Profile, o explanation.Options) (*explanation.View, error) {
	store, err := p.profiles(ctx)
	if err != nil {
		return nil, err
	}
	in := explanation.Input{Profile: known, Laws: p.app.Config.Processor.Config, Store: store, Phrases: p.phrases()}
	switch db, err := p.history(); {
	case err != nil:
		in.Note = "no history: " + err.Error()
	case db == nil:
		in.Note = "no history: DATABASE_URL is not set"
	default:
		if in.Events, in.Note, err = explanation.FromOutbox(ctx, db, known.UserID, known, p.app.Config.Processor.IDs.Retention); err != nil {
			in.Events, in.Note = nil, "no history: "+app.DatabaseUnreached(err).Error()
		}
	}
	return explanation.New(ctx, in, o)
}

func (p *Pages) recommend(ctx context.Context, user int32, o recommend.Options) (*recommend.Answer, error) {
	store, err := p.profiles(ctx)
	if err != nil {
		return nil, err
	}
	laws := p.app.Config.Processor.Config
	ports := recommend.Ports{
		Profiles: named{store}, Phrases: p.phrases(), Laws: laws,
		Products: recommend.InStore{Store: recommend.Reading{Store: store}, Dimensions: laws.Dimensions, Model: laws.Model},
	}
	db, err := p.history()
	if err != nil {
		return nil, err
	}
	if db == nil {
		o.Exclude, o.Explain = recommend.ExcludeNothing, false
	} else {
		ports.History = history{db, p.app.Config.Processor.IDs.Retention, p.app.Config.Processor.Weights.Against()}
	}
	r, err := recommend.New(recommend.DefaultConfig(), ports)
	if err != nil {
		return nil, err
	}
	return r.ForUser(ctx, user, o)
}

// phrases returns what makes vectors of phrases.
func (p *Pages) phrases() engine.Vectors[string] {
	if p.way == nil {
		return noPhrases{p.app.Vectors.Usable()}
	}
	return p.way.Phrases
}

// noPhrases stands for settings by which no phrase has a vector.
type noPhrases struct{ err error }

// Resolve implements [engine.Vectors].
func (n noPhrases) Resolve(_ context.Context, phrases []string) []engine.Resolved {
	return slices.Repeat([]engine.Resolved{{Err: n.err}}, len(phrases))
}
