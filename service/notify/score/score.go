package score

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine"
	"keyfold/engine/lru"
	"keyfold/engine/notify"
	"keyfold/engine/profile"
)

// Config sets the bounds of [Scores].
type Config struct {
	// Patience is how long one call of Score waits for both servers together.
	Patience time.Duration
	// Failures in a row after which a server is left alone for OpenFor.
	Failures int
	OpenFor  time.Duration

	ProfileBytes int64         // of profiles in memory
	ProfileTTL   time.Duration // how long one is kept

	History profile.History // of profiles that can be used
	Model   string          // that made the vectors
	Faint   float64         // the mass below which one has no direction to go by
}

// DefaultConfig returns the settings of a worker that was told nothing. 64 MiB hold
// some 5,000 profiles of 1536 components.
func DefaultConfig() Config {
	return Config{
		Patience: 150 * time.Millisecond, Failures: 3, OpenFor: 5 * time.Second,
		ProfileBytes: 64 << 20, ProfileTTL: time.Minute,
		History: profile.DefaultConfig().History, Model: profile.DefaultConfig().Model,
	}
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var faults engine.Faults
	faults.If(c.Patience <= 0 || c.OpenFor <= 0 || c.ProfileTTL <= 0,
		"patience %v, pause of a server that is away %v, age of profiles %v: each must be above 0", c.Patience, c.OpenFor, c.ProfileTTL)
	faults.If(c.Failures < 1, "%d failures: it must be at least 1", c.Failures)
	faults.If(c.ProfileBytes < 0, "%d bytes of profiles: it must not be negative", c.ProfileBytes)
	return faults.Err()
}

// Texts resolves texts to unit vectors. Its calls end with their context.
type Texts interface {
	engine.Vectors[string]
	// Cached returns the vector of a text if it is in memory, nil otherwise.
	Cached(text string) []float64
}

// Profiles reads the profiles of users, as [profile.Profiles] does. Its calls end with
// their context.
type Profiles interface {
	Load(ctx context.Context, users []int32) ([]*profile.Profile, error)
}

// Scores implements [notify.Scores]. It is safe for concurrent use.
type Scores struct {
	config   Config
	texts    Texts
	profiles Profiles
	api      *gate
	store    *gate
	cache    *lru.Cache[int32, taste]

	known   atomic.Int64
	skipped [len(notify.Skips)]atomic.Int64
}

var _ notify.Scores = (*Scores)(nil)

// New returns the port over these. Log may be nil.
func New(config Config, texts Texts, profiles Profiles, log *slog.Logger) (*Scores, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	log = log.With("component", "notify")
	return &Scores{
		config: config, texts: texts, profiles: profiles,
		api:   newGate(config, "embedding API", notify.SkipEmbeddingLate, notify.SkipEmbeddingAway, log),
		store: newGate(config, "profile store", notify.SkipProfilesLate, notify.SkipProfilesAway, log),
		cache: lru.New(config.ProfileBytes, sizeOf),
	}, nil
}

// Score implements [notify.Scores]. It returns after [Config.Patience] at the latest.
func (s *Scores) Score(ctx context.Context, policy *notify.Policy, events []*notify.Notification) []notify.Score {
	ctx, cancel := context.WithTimeout(ctx, s.config.Patience)
	defer cancel()
	scores, users := make([]notify.Score, len(events)), make([]int32, len(events))
	var open []int // events that nothing has ended yet
	for i, e := range events {
		user, ok := userOf(e.User())
		switch {
		case !policy.MayEmbed(e):
			scores[i].Skip = notify.SkipText
		case !ok:
			scores[i].Skip = notify.SkipNoProfile
		default:
			users[i] = user
			open = append(open, i)
		}
	}
	tastes, open := s.tastes(ctx, users, open, scores)
	vectors, open := s.vectors(ctx, events, open, scores)
	for _, i := range open {
		scores[i] = compare(tastes[users[i]].vector, vectors[events[i].Text()])
	}
	s.count(scores)
	return scores
}

// compare returns the cosine of two unit vectors.
func compare(a, b []float64) notify.Score {
	if len(a) != len(b) {
		return notify.Score{Skip: notify.SkipOtherProfile}
	}
	return notify.Score{Known: true, Cosine: min(1, max(-1, floats.Dot(a, b)))}
}

// vectors returns the vectors of the texts of open events, and those events that have
// one; the others are told in scores.
func (s *Scores) vectors(ctx context.Context, events []*notify.Notification, open []int, scores []notify.Score) (vectors map[string][]float64, found []int) {
	vectors = map[string][]float64{}
	var asked []string
	for _, i := range open {
		text := events[i].Text()
		if _, met := vectors[text]; met {
			continue
		}
		if vectors[text] = s.texts.Cached(text); vectors[text] == nil {
			asked = append(asked, text)
		}
	}
	skips := map[string]notify.Skip{}
	if len(asked) > 0 {
		s.resolve(ctx, asked, vectors, skips)
	}
	for _, i := range open {
		if text := events[i].Text(); skips[text] != "" {
			scores[i].Skip = skips[text]
		} else {
			found = append(found, i)
		}
	}
	return vectors, found
}

// resolve asks for the vectors of texts.
func (s *Scores) resolve(ctx context.Context, texts []string, vectors map[string][]float64, skips map[string]notify.Skip) {
	var resolved []engine.Resolved
	skip := s.api.pass(func() error {
		resolved = s.texts.Resolve(ctx, texts)
		for _, r := range resolved {
			if r.Err != nil && engine.KindOf(r.Err) != engine.Permanent {
				return r.Err
			}
		}
		return nil
	})
	for i, text := range texts {
		switch {
		case resolved == nil:
			skips[text] = skip
		case resolved[i].Err == nil:
			vectors[text] = resolved[i].Vector
		case engine.KindOf(resolved[i].Err) == engine.Permanent:
			skips[text] = notify.SkipRefused
		default:
			skips[text] = skip
		}
	}
}

// userOf returns the number of the user's profile: profiles are known by decimal
// numbers, in one spelling each.
func userOf(id string) (user int32, ok bool) {
	n, err := strconv.ParseInt(id, 10, 32)
	return int32(n), err == nil && n > 0 && strconv.FormatInt(n, 10) == id
}

func (s *Scores) count(scores []notify.Score) {
	for i := range scores {
		if scores[i].Known {
			s.known.Add(1)
			continue
		}
		for j, skip := range notify.Skips {
			if scores[i].Skip == skip {
				s.skipped[j].Add(1)
			}
		}
	}
}
