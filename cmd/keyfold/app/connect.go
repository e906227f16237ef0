package app

import (
	"context"
	"errors"
	"time"

	"keyfold/internal/version"
	"keyfold/service/daemon"
	"keyfold/service/profile/embedding"

	"keyfold/engine"
	"keyfold/engine/causes"
	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
	"keyfold/source/rabbit"
)

// Each With function opens a connection, calls do with it, and closes it when do has
// returned. The error joins that of do and that of closing.

// WithStore connects to MongoDB, once.
func (a *App) WithStore(do func(*mongodb.Store) error) error {
	store, err := a.OpenStore()
	if err != nil {
		return err
	}
	return errors.Join(do(store), store.Close())
}

// OpenStore connects to MongoDB, once.
func (a *App) OpenStore() (*mongodb.Store, error) { return a.openStore(false) }

// WithServiceStore opens the store for a service that reads, from secondaries too where it says
// so, and may start while MongoDB is away: it waits for it. What no time cures ends the start.
func (a *App) WithServiceStore(secondaries bool, do func(*mongodb.Store) error) error {
	store, err := daemon.AwaitStore(a.Ctx, a.Log, func(context.Context) (*mongodb.Store, error) { return a.openStore(secondaries) })
	if err != nil {
		return daemon.UnlessStopped(a.Ctx, err)
	}
	return errors.Join(do(store), store.Close())
}

func (a *App) openStore(secondaries bool) (*mongodb.Store, error) {
	c := mongodb.DefaultConfig()
	c.URI, c.Database = a.Servers.MongoDB, a.Servers.Database
	c.Dimensions, c.History, c.Model = a.Config.Processor.Dimensions, a.Config.Processor.History, a.Config.Processor.Model
	c.Format = mongodb.Format(a.Servers.Format)
	c.Secondaries = secondaries
	c.ShortHalfLife = a.Config.Processor.ShortHalfLife
	store, err := mongodb.Open(a.Ctx, c)
	return store, causes.Ensure(causes.MongoDB, err)
}

// OpenChecked connects to MongoDB and checks that it is set up.
func (a *App) OpenChecked(ctx context.Context) (*mongodb.Store, error) {
	store, err := a.openStore(false)
	if err != nil {
		return nil, err
	}
	if err := store.Check(ctx); err != nil {
		_ = store.Close() // it has nothing to add
		return nil, err
	}
	return store, nil
}

// OpenDatabase opens DATABASE_URL; it does not connect.
func (a *App) OpenDatabase() (*outbox.Database, error) {
	if a.Servers.SQL == "" {
		return nil, errors.New("DATABASE_URL is not set: set it to mysql://user:password@host:3306/name, postgres://user:password@host:5432/name or sqlite:///file, and run `keyfold setup`")
	}
	return outbox.Open(a.Servers.SQL)
}

// WithDatabase opens DATABASE_URL and checks that it can be used now.
func (a *App) WithDatabase(do func(*outbox.Database) error) error {
	return a.withDatabase(false, do)
}

// WithServiceDatabase opens DATABASE_URL for a service, which may start while its
// database is away. What no time cures ends the start.
func (a *App) WithServiceDatabase(do func(*outbox.Database) error) error {
	return a.withDatabase(true, do)
}

func (a *App) withDatabase(service bool, do func(*outbox.Database) error) error {
	db, err := a.OpenDatabase()
	if err != nil {
		return err
	}
	if err := DatabaseUnreached(db.Check(a.Ctx)); err != nil {
		if !service || engine.KindOf(err) == engine.Configuration {
			return errors.Join(err, db.Close())
		} // else the service meets it too, and logs it
	}
	return errors.Join(do(db), db.Close())
}

// Identity names this process in a role, for the broker.
func (a *App) Identity(role string) rabbit.Identity {
	i := rabbit.ThisProcess(role)
	i.Version = version.Read().Version
	return i
}

// WithPublisher connects to the broker when something is published.
func (a *App) WithPublisher(purpose string, do func(*rabbit.Publisher) error) error {
	p := rabbit.NewPublisher(a.Servers.RabbitMQ, a.Identity("tool"), purpose, rabbit.Timing{}, a.Log)
	return errors.Join(do(p), a.ClosePublisher(p.Close))
}

// ClosePublisher gives the broker five seconds to end a connection in order.
func (a *App) ClosePublisher(end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.Ctx), 5*time.Second)
	defer cancel()
	return end(ctx)
}

// WithEmbedding builds the way from a text to a vector; perSecond bounds its
// requests for product texts, 0 does not.
func (a *App) WithEmbedding(c embedding.Config, perSecond float64, do func(*embedding.Embedding) error) error {
	way, err := embedding.New(c, perSecond, a.Log)
	if err != nil {
		return err
	}
	return errors.Join(do(way), way.Close())
}
