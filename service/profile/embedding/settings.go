package embedding

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"keyfold/engine/cure"
	"keyfold/engine/profile"
	"keyfold/internal/settings"
	"keyfold/source/vector"
	"keyfold/source/vector/openai"
	"keyfold/source/vector/rediscache"
)

// Embedders that can be asked for.
const (
	EmbedderOpenAI = "openai"
	EmbedderHash   = "hash"
)

// Settings say what makes vectors of search phrases and of product texts.
type Settings struct {
	Embedder  string                           `name:"embedder" env:"EMBEDDER" default:"openai" words:"openai,hash" help:"openai: any service with OpenAI's embeddings API. hash: offline and lexical, for trials." group:"embedding" for:"profiles"`
	Model     string                           `name:"embedding-model" env:"EMBEDDING_MODEL" default:"" help:"Embedding model; stored with each profile. Default: text-embedding-3-small (hash: keyfold-hash-v1)." group:"embedding" for:"profiles"`
	Key       string                           `name:"openai-api-key" env:"OPENAI_API_KEY" default:"" secret:"" help:"API key; better in the environment than on a command line." group:"embedding" for:"embedding"`
	KeyFile   string                           `name:"openai-api-key-file" env:"OPENAI_API_KEY_FILE" default:"" placeholder:"FILE" help:"File that holds the API key." group:"embedding" for:"embedding"`
	BaseURL   string                           `name:"openai-base-url" env:"OPENAI_BASE_URL" default:"" help:"Base URL of the API, up to /v1. Default: https://api.openai.com/v1." group:"embedding" for:"embedding"`
	OmitDims  settings.Switch                  `name:"openai-omit-dimensions" env:"OPENAI_OMIT_DIMENSIONS" help:"Leave the dimensions parameter out, for models that refuse it." group:"embedding" for:"embedding"`
	MaxInputs settings.Value[int]              `name:"openai-max-inputs" env:"OPENAI_MAX_INPUTS" help:"Phrases in one request; some servers take 32." group:"embedding" for:"embedding"`
	Timeout   settings.Value[settings.Seconds] `name:"openai-timeout" env:"OPENAI_TIMEOUT" help:"Timeout of one request (seconds)." group:"embedding" for:"embedding"`
	Redis     string                           `name:"redis-url" env:"REDIS_URL" default:"" help:"Redis cache of phrase vectors: redis://, rediss:// or unix://. Not set: in memory only." group:"embedding" for:"embedding"`
	CacheTTL  settings.Value[settings.Seconds] `name:"embedding-cache-ttl" env:"EMBEDDING_CACHE_TTL" help:"TTL of a phrase's vector in the cache (seconds, or 1h)." group:"embedding" for:"embedding"`
	FoldCase  settings.Switch                  `name:"embedding-fold-case" env:"EMBEDDING_FOLD_CASE" help:"Lower-case phrases before embedding: fewer calls, but models read case." group:"embedding" for:"embedding"`

	config Config // what [settings.Read] sets
}

// Config is what the settings amount to. API and Redis count only where
// they are used.
type Config struct {
	Offline bool
	Model   string
	Phrases vector.Config
	API     openai.Config
	// Failures in a row that open the API's breaker: no more than an event has
	// attempts, so that an outage is known before it can use them up.
	Failures int
	Redis    *rediscache.Config // nil: none
	// Learned are the components that stand behind those of a text. Model is then the name
	// of both; the API and Redis know the text's alone.
	Learned profile.Learned
	// PhraseTimeout is how long a flush waits for phrases: its product events wait
	// with them. Commands wait for as long as the API's timeout.
	PhraseTimeout time.Duration
	// Effect is what an API that is away means, for the log; "": search events are parked.
	Effect string
	// unread: which service, or its key, could not be read. That is told; what
	// follows from it need not be.
	unread bool

	Warnings []settings.Warning // of values that may not do what is meant
}

// Config reads and checks the settings for texts of so many components; the error names every fault with the
// variable to change. What the embedding service itself needs is checked by who
// uses it: see [Config.Usable].
func (s Settings) Config(dimensions int, learned profile.Learned) (Config, error) {
	s.Bind()
	faults := []error{settings.Read(&s)}
	c := s.config
	if err := c.API.CheckRequests(); err != nil {
		faults = append(faults, named(err))
		usual := openai.DefaultConfig() // the client's own check does not tell it again
		c.API.Timeout, c.API.MaxInputs = usual.Timeout, usual.MaxInputs
	}
	switch s.Embedder {
	case EmbedderHash:
		c.Offline, c.Model = true, vector.HashModel
	case EmbedderOpenAI:
		c.Model = openai.DefaultModel
	default:
		faults = append(faults, fmt.Errorf("%s is %q: it must be %s or %s", embedderSetting, s.Embedder, EmbedderOpenAI, EmbedderHash))
		c.unread, c.Model = true, openai.DefaultModel
	}
	if s.Model != "" {
		c.Model = s.Model
	}
	c.API.Model, c.API.Dimensions = c.Model, dimensions
	if s.BaseURL != "" {
		c.API.BaseURL = s.BaseURL
		c.warnOfBase()
	}
	if err := s.readKey(&c.API); err != nil {
		faults = append(faults, err)
		c.unread = c.unread || c.API.Key == ""
	}
	if s.Redis != "" {
		r := rediscache.DefaultConfig()
		r.URL, r.Model, r.Dimensions, r.TTL = s.Redis, c.Model, dimensions, c.Phrases.CacheTTL
		c.Redis = &r
		faults = append(faults, named(r.Validate()))
	}
	c.Learned, c.Model, c.Phrases.Zeros = learned, learned.Model(c.Model), learned.Components
	return c, errors.Join(append(faults, named(c.Phrases.Validate()))...)
}

// warnOfBase warns of an address that lacks its last part, which services seldom do
// without. Its form is judged elsewhere.
func (c *Config) warnOfBase() {
	if u, err := url.Parse(c.API.BaseURL); !c.Offline && err == nil && strings.Trim(u.Path, "/") == "" {
		c.Warnings = append(c.Warnings, settings.Warning{
			Variable: openai.BaseURLSetting.String(), Text: "address without a path",
			Hint: "most services want /v1 at its end: " + strings.TrimRight(settings.Redact(c.API.BaseURL), "/") + "/v1",
		})
	}
}

// Bind binds each setting to its place in a default configuration.
func (s *Settings) Bind() {
	c := &s.config
	*c = Config{Phrases: vector.DefaultConfig(), API: openai.DefaultConfig(), PhraseTimeout: 3 * time.Second}
	c.Phrases.CacheTTL = rediscache.DefaultConfig().TTL
	s.OmitDims.Bind(&c.API.OmitDimensions)
	s.MaxInputs.Bind(&c.API.MaxInputs)
	s.Timeout.Bind((*settings.Seconds)(&c.API.Timeout))
	s.CacheTTL.Bind((*settings.Seconds)(&c.Phrases.CacheTTL))
	s.FoldCase.Bind(&c.Phrases.FoldCase)
}

// Holding returns the settings for so many events held at once, within that
// memory: the cache has room for all of their phrases, so that a vector is still
// there when its window closes.
func (c Config) Holding(events int, memory int64) Config {
	const perEntry = 512 // beside the vector
	c.Phrases.CacheBytes = min(int64(events)*int64(8*(c.API.Dimensions+c.Learned.Components)+perEntry), memory/8)
	return c
}

// What faults of the settings name.
const (
	embedderSetting cure.Name = "embedding.Settings.Embedder"
	keySetting      cure.Name = "embedding.Settings.Key"
	keyFileSetting  cure.Name = "embedding.Settings.KeyFile"
)

// readKey reads the key, if there is one; it leaves it empty if its file cannot be
// read.
func (s Settings) readKey(c *openai.Config) (fault error) {
	c.Key = openai.Key(s.Key)
	if s.KeyFile == "" {
		return nil
	}
	if s.Key != "" {
		fault = fmt.Errorf("%s and %s are both set: keep one", keySetting, keyFileSetting)
	}
	text, err := os.ReadFile(s.KeyFile)
	c.Key = openai.Key(strings.TrimSpace(string(text)))
	switch {
	case err != nil:
		fault = errors.Join(fault, fmt.Errorf("%s: %w: name a file that this user may read", keyFileSetting, err))
	case c.Key == "":
		fault = errors.Join(fault, fmt.Errorf("%s: %s is empty: put the key in it", keyFileSetting, s.KeyFile))
	}
	return fault
}

// named returns err with the variables to change in place of the fields, which are named
// alike. That of the dimensions is the engine's.
func named(err error) error {
	return settings.Named(&settings.Engine{}, nil, settings.Named(&Settings{}, nil, err))
}

// TextModel is the name of the model of texts alone.
func (c Config) TextModel() string { return c.API.Model }

// Usable reports what is missing for vectors to be made.
func (c Config) Usable() error {
	if c.Offline || c.unread {
		return nil
	}
	if err := c.API.Validate(); err != nil {
		return fmt.Errorf("%w\n(or set %s=hash to embed offline: lexical, similar spelling is near and synonyms are not)", named(err), embedderSetting)
	}
	return nil
}

// effect returns what an API that is away means.
func (c Config) effect() string { return cmp.Or(c.Effect, "search events are parked") }

// Where says where vectors are made and cached, secrets left out.
func (c Config) Where() string {
	switch {
	case c.Offline:
		return "offline, lexical"
	case c.Redis != nil:
		return c.API.BaseURL + ", cached in " + c.Redis.String()
	default:
		return c.API.BaseURL
	}
}
