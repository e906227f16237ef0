package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Collections of the database.
const (
	collectionUsers    = "user_embeddings"
	collectionProducts = "product_embeddings"
)

// Store is an open store. All methods may be called from any goroutine.
type Store struct {
	config   Config
	codec    *codec
	client   *mongo.Client
	database *mongo.Database
	users    *mongo.Collection
	products *mongo.Collection

	guard *guard

	// putSize is how many products one round trip writes: fewer after timeouts.
	putSize atomic.Int32

	clock *clock

	// buffers holds *[]byte for the documents of a bulk.
	buffers sync.Pool

	closing  sync.Once
	closeErr error
}

var (
	_ profile.Profiles = (*Store)(nil)
	_ profile.Eraser   = (*Store)(nil)
)

// Open connects to the store and reads from it once, so that a wrong address,
// login or right shows at the start. It creates nothing; see [Store.Setup].
//
// A setting that cannot work, a refused login and a missing right are
// [engine.ConfigurationError]. A store that does not answer is a transient error.
func Open(ctx context.Context, c Config) (*Store, error) {
	if err := c.Validate(); err != nil {
		return nil, engine.ConfigurationError(reasonSettings, err)
	}
	c = c.withDefaults()
	o := c.clientOptions()
	g := &guard{}
	o.SetPoolMonitor(g.monitor())
	client, err := mongo.Connect(o)
	if err != nil {
		return nil, addressFault(c.URI, err)
	}
	c.Timeout = *o.Timeout
	s := newStore(client, c, g)
	if err := s.reach(ctx); err != nil {
		_ = s.Close() // it has nothing to add
		if o.Auth == nil && engine.ReasonOf(err) == reasonRights {
			err = engine.ConfigurationError(reasonLogin, fmt.Errorf(
				"%s names no user and MongoDB wants one: add user and password, mongodb://user:password@host:27017/ (%v)", uriSetting, mongo.ErrorCodes(err)))
		}
		return nil, err
	}
	return s, nil
}

// addressFault gives an error of reading an address its kind: name servers that do
// not answer now may do so later.
func addressFault(uri string, err error) error {
	if name := nameFault(err); name != nil && !name.IsNotFound {
		return fmt.Errorf("MongoDB: look up the hosts of %s: %w", uriSetting, name)
	}
	return engine.ConfigurationError(reasonAddress, fmt.Errorf(
		"%s is not usable: check its hosts and options: %s", uriSetting, redact(uri, err.Error())))
}

// nameFault returns what the name servers answered, nil where err is not theirs.
func nameFault(err error) *net.DNSError {
	fault, _ := errors.AsType[*net.DNSError](err)
	return fault
}

func newStore(client *mongo.Client, c Config, g *guard) *Store {
	database := client.Database(c.Database)
	s := &Store{
		config:   c,
		codec:    newCodec(c.Dimensions, c.Format, c.Model),
		client:   client,
		database: database,
		users:    database.Collection(collectionUsers),
		products: database.Collection(collectionProducts),
		guard:    g,
		clock:    newClock(),
		buffers:  sync.Pool{New: func() any { return new([]byte) }},
	}
	s.putSize.Store(productChunk)
	return s
}

// reach reads as every Load does, but nothing of weight.
func (s *Store) reach(ctx context.Context) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	_, err := s.users.FindOne(ctx, bson.D{}, options.FindOne().SetProjection(bson.D{{Key: fieldID, Value: 1}})).Raw()
	if err == mongo.ErrNoDocuments { //nolint:errorlint // the driver returns it bare
		return nil
	}
	return mark("first read", err)
}

// bounded returns a context for one round trip.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.config.Timeout)
}

// closeTimeout bounds the closing of connections to servers that may be gone.
const closeTimeout = time.Second

// Close closes the connections. Operations under way fail.
func (s *Store) Close() error {
	s.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		s.closeErr = mark("close", s.client.Disconnect(ctx))
	})
	return s.closeErr
}
