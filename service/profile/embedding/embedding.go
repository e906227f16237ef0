package embedding

import (
	"errors"
	"log/slog"
	"time"

	"keyfold/engine/breaker"
	"keyfold/engine/causes"
	"keyfold/engine/terse"
	"keyfold/source/vector"
	"keyfold/source/vector/openai"
	"keyfold/source/vector/rediscache"
)

// Embedding is the way from a text to a vector. API, Breaker and Redis are nil
// where they are not used.
type Embedding struct {
	Phrases *vector.Phrases // the engine's port
	// Embedder makes vectors of product texts, patiently: an import has no
	// queue to put its work back into.
	Embedder vector.Embedder
	API      *openai.Client
	Breaker  *vector.Breaker
	Redis    *rediscache.Cache
	effect   string // of an API that is away
}

// New builds the way. It connects to nothing yet. perSecond bounds the requests
// of Embedder, 0 does not.
func New(c Config, perSecond float64, log *slog.Logger) (*Embedding, error) {
	if err := c.Usable(); err != nil {
		return nil, err
	}
	e, err := build(c, perSecond, log.With("component", "search"))
	if err == nil && c.Learned.Components > 0 {
		e.Embedder = vector.Padded(e.Embedder, c.Learned.Components, c.Model)
	}
	return e, named(err)
}

func build(c Config, perSecond float64, log *slog.Logger) (*Embedding, error) {
	if c.Offline {
		return offline(c)
	}
	e := &Embedding{effect: c.effect()}
	var err error
	if e.API, err = openai.New(c.API); err != nil {
		return nil, err
	}
	if e.Breaker, err = vector.NewBreaker(breakerConfig(c, log), e.API); err != nil {
		return nil, err
	}
	patient := vector.DefaultRetryingConfig()
	patient.PerSecond = perSecond
	if e.Embedder, err = vector.NewRetrying(patient, e.API); err != nil {
		return nil, err
	}
	var shared vector.Cache
	if c.Redis != nil {
		if e.Redis, err = rediscache.New(*c.Redis); err != nil {
			return nil, err
		}
		shared = e.Redis
	}
	// One call serves many searches, so its failure is no search's own: it is made
	// again until the breaker has judged. Calls that fail late are not, as they
	// would keep the requests of other phrases waiting.
	judged, err := vector.NewRetrying(vector.RetryingConfig{
		Attempts: breakerConfig(c, log).Failures, Pause: 100 * time.Millisecond, Within: c.PhraseTimeout * 2 / 3,
	}, e.Breaker)
	if err != nil {
		return nil, err
	}
	gathering := vector.DefaultBatching()
	gathering.Inputs = min(gathering.Inputs, c.API.MaxInputs)
	e.Phrases, err = vector.NewBatched(c.Phrases, gathering, judged, shared)
	return e, err
}

func offline(c Config) (*Embedding, error) {
	hash, err := vector.NewHash(c.API.Dimensions)
	if err != nil {
		return nil, err
	}
	named := renamed{hash, c.Model}
	phrases, err := vector.NewPhrases(c.Phrases, named)
	return &Embedding{Phrases: phrases, Embedder: named}, err
}

// renamed gives an embedder the name it is configured to have.
type renamed struct {
	vector.Embedder
	model string
}

func (r renamed) Model() string { return r.model }

func breakerConfig(e Config, log *slog.Logger) vector.BreakerConfig {
	c := vector.DefaultBreakerConfig()
	if e.Failures > 0 {
		c.Failures = min(c.Failures, e.Failures)
	}
	var fault terse.Fault
	c.Changed = func(s breaker.State) {
		if s.Open && fault.Begins(s.Cause) {
			log.Error("embedding API down: "+e.effect(), slog.String("hint", causes.Hint(s.Cause, "all other work goes on")), slog.Any("error", s.Cause))
		}
		if s.Open {
			return
		}
		if lasted, was := fault.Ends(); was {
			log.Info("embedding API is back", slog.Duration("away_for", lasted))
		}
	}
	return c
}

// Close lets go of connections. What is under way ends with an error.
func (e *Embedding) Close() error {
	e.Phrases.Close()
	var err error
	if e.API != nil {
		e.API.Close()
	}
	if e.Redis != nil {
		err = errors.Join(err, e.Redis.Close())
	}
	return err
}
