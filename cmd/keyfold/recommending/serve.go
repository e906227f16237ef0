// Package recommending has the commands that read profiles for a shop: its HTTP API, and
// the products for one user.
package recommending

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine/causes"
	"keyfold/engine/metric"
	"keyfold/engine/profile"
	"keyfold/internal/settings"
	"keyfold/service/profile/api"
	"keyfold/service/profile/embedding"
	"keyfold/service/profile/explanation"
	"keyfold/service/profile/recommend"
	"keyfold/sink/mongodb"
	"keyfold/source/httpapi"
	"keyfold/source/outbox"
)

// ServeCmd answers a shop's requests.
type ServeCmd struct {
	API       app.APIFlags  `embed:""`
	Recommend app.Recommend `embed:""`
}

// Service marks a command that runs until it is told to stop.
func (c *ServeCmd) Service() {}

// Check judges the settings of the API and of the servers. DATABASE_URL may be missing, not
// wrong.
func (c *ServeCmd) Check(a *app.App) error {
	return errors.Join(check(a), c.Recommend.Check(), c.API.Check())
}

func check(a *app.App) error {
	faults := []error{a.CheckStore(), a.Vectors.Usable()}
	if a.Servers.SQL != "" {
		faults = append(faults, a.CheckDatabase())
	}
	return errors.Join(faults...)
}

// Run listens until it is told to stop.
func (c *ServeCmd) Run(a *app.App) error {
	a.LogStart("serve")
	if a.Servers.SQL == "" {
		a.Log.Info("no history of events", slog.String("hint", "set DATABASE_URL for exclusions, reasons, and popular products for users without a profile"))
	}
	config, err := c.API.Config()
	if err != nil {
		return err
	}
	return with(a, c.Recommend, true, func(r *recommend.Recommender, f *recommend.Follower) error {
		return c.serve(a, config, r, f)
	})
}

// with joins a recommender to its servers. A service may start while these are away. There is no
// follower where MongoDB searches.
func with(a *app.App, c app.Recommend, service bool, do func(*recommend.Recommender, *recommend.Follower) error) error {
	withStore := a.WithStore
	if service {
		withStore = func(do func(*mongodb.Store) error) error { return a.WithServiceStore(c.Secondaries, do) }
	}
	return withStore(func(store *mongodb.Store) error {
		return a.WithEmbedding(a.Vectors, 0, func(way *embedding.Embedding) error {
			ports := recommend.Ports{Profiles: named{store}, Phrases: way.Phrases, Laws: a.Config.Processor.Config}
			join := func(db *outbox.Database) error {
				if db != nil {
					ports.History = history{db, a.Config.Processor.IDs.Retention, a.Config.Processor.Weights.Against()}
				}
				r, follower, err := over(a, c, service, ports, store)
				if err != nil {
					return err
				}
				return do(r, follower)
			}
			switch {
			case a.Servers.SQL == "":
				return join(nil)
			case service:
				return a.WithServiceDatabase(join)
			}
			return a.WithDatabase(join)
		})
	})
}

func over(a *app.App, c app.Recommend, service bool, ports recommend.Ports, store *mongodb.Store) (*recommend.Recommender, *recommend.Follower, error) {
	config := c.Config()
	if !service {
		config.PopularTTL = 0 // there is one request
	}
	if c.Search == app.SearchInMongoDB {
		ports.Products = recommend.InStore{Store: store, Index: c.Index, Dimensions: ports.Laws.Dimensions, Model: ports.Laws.Model}
		r, err := recommend.New(config, ports)
		return r, nil, err
	}
	return recommend.Over(config, ports, store, a.Log.With("component", "recommend"))
}

func (c *ServeCmd) serve(a *app.App, config httpapi.Config, r *recommend.Recommender, follower *recommend.Follower) error {
	s := &serving{app: a, follower: follower}
	if follower != nil {
		follower.OnRead(s.room)
	}
	s.api = api.New(api.Ports{Recommender: r, Ready: func(context.Context) error { return s.read() }})
	s.handler = httpapi.NewHandler(s.api, a.Log.With("component", "recommend"))
	var err error
	if s.server, err = httpapi.NewServer(config, s.handler); err != nil {
		return err
	}
	socket, err := a.Listen("serve", s.server, "HTTP_ADDR", config.Addr, "")
	if err != nil {
		return err
	}
	defer socket.Close()
	return a.WithAdmin(s, func() error {
		ctx, cancel := context.WithCancel(a.Ctx)
		var following conc.WaitGroup
		if follower != nil {
			following.Go(func() { follower.Run(ctx) })
		}
		defer following.Wait()
		defer cancel()
		return socket.Serve()
	})
}

// serving is a running API, and what the admin endpoint asks.
type serving struct {
	app      *app.App
	follower *recommend.Follower // nil: MongoDB searches
	api      *api.API
	handler  *httpapi.Handler
	server   *httpapi.Server
	wanted   atomic.Int64 // the memory limit that there should be; 0: it is enough
}

// read returns why no product can be found yet.
func (s *serving) read() error {
	if s.follower == nil {
		return nil
	}
	return s.follower.Ready()
}

// room makes room for the catalogue in memory.
func (s *serving) room(kept int64) {
	wanted := s.app.Config.Room(kept)
	if first := s.wanted.Swap(int64(wanted)) == 0; first && wanted > 0 {
		s.app.Log.Warn("catalogue exceeds the memory limit, which is raised", slog.Int64("bytes", kept),
			slog.String("hint", fmt.Sprintf("set WORKER_MEMORY_LIMIT to %v, and give the process as much", wanted)))
	}
}

// Ready implements [app.Service].
func (s *serving) Ready() error { return s.handler.Ready() }

// Notes implements [app.Service].
func (s *serving) Notes() (notes []string) {
	if err := s.server.TokenFault(); err != nil {
		notes = append(notes, "HTTP_TOKEN_FILE: "+err.Error())
	}
	if wanted := s.wanted.Load(); wanted > 0 {
		notes = append(notes, fmt.Sprintf("the catalogue does not fit WORKER_MEMORY_LIMIT (%v): set it to %v, and give the process as much",
			settings.Bytes(s.app.Config.Memory), settings.Bytes(wanted)))
	}
	if s.follower == nil {
		return notes
	}
	if err := s.follower.Fault(); err != nil && s.read() == nil {
		notes = append(notes, "the catalogue is followed no more, answers have the products as they were: "+err.Error())
	}
	return notes
}

// Register implements [app.Service].
func (s *serving) Register(set *metric.Set) {
	s.server.Register(set)
	s.api.Register(set)
	if s.follower != nil {
		s.follower.Register(set)
	}
}

// Figures implements [app.Service].
func (s *serving) Figures() []app.Figure {
	return []app.Figure{{Name: "requests", Read: s.api.Requests}}
}

// named gives errors of MongoDB their cause and cure.
type named struct{ *mongodb.Store }

func (n named) Load(ctx context.Context, users []int32) (profiles []*profile.Profile, err error) {
	profiles, err = n.Store.Load(ctx, users)
	return profiles, causes.Ensure(causes.MongoDB, err)
}

// history is the SQL history as a recommender reads it.
type history struct {
	db        *outbox.Database
	retention time.Duration // of the ids in profiles
	against   []profile.EventType
}

func (h history) Events(ctx context.Context, user int32, p *profile.Profile) ([]explanation.Event, string, error) {
	return explanation.FromOutbox(ctx, h.db, user, p, h.retention)
}

func (h history) Products(ctx context.Context, user int32, bought bool) ([]int32, error) {
	return h.db.ProductsOf(ctx, user, recommend.TypeOf(bought))
}

func (h history) Counts(ctx context.Context, days int) (map[int32]int64, error) {
	return h.db.ProductCounts(ctx, days, h.against)
}

// Cmd recommends products to a user.
type Cmd struct {
	recommend.Flags `embed:""`
	Recommend       app.Recommend `embed:""`
}

// Check judges the flags and the settings.
func (c *Cmd) Check(a *app.App) error {
	return errors.Join(c.Options().Check(), c.Recommend.Check(), check(a))
}

// Run prints the products.
func (c *Cmd) Run(a *app.App) error {
	return with(a, c.Recommend, false, func(r *recommend.Recommender, f *recommend.Follower) error {
		if f != nil {
			if err := f.Read(a.Ctx); err != nil {
				return err
			}
		}
		o := c.Options()
		o.Explain = a.Servers.SQL != ""
		answer, err := r.ForUser(a.Ctx, int32(c.ID), o)
		if err != nil {
			return err
		}
		return a.Emit(answer, answer.Print)
	})
}
