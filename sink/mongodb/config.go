package mongodb

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"keyfold/engine/profile"
)

// Config says where the store is and what its profiles have in common. Zero
// durations and sizes stand for the defaults of [DefaultConfig].
type Config struct {
	// URI is a MongoDB connection string. Its write concern, read concern and
	// read preference are not used: they are the store's to choose. Its
	// appName, maxPoolSize, timeoutMS (above 0), connectTimeoutMS and
	// serverSelectionTimeoutMS stand before the ones here.
	URI      string
	Database string

	Dimensions int // components of a profile's vector
	History    profile.History
	Model      string // what makes the vectors
	Format     Format // how profiles' vectors are written
	// ShortHalfLife is that of the profiles' second vectors; 0: they have none.
	ShortHalfLife time.Duration

	// Secondaries lets reads go to secondaries, where there are any. What they answer is in a
	// majority, and as old as their replication. It is not for what writes what it has read.
	Secondaries bool

	// Timeout bounds each round trip, from the choice of a server to the
	// answer; a context that ends sooner does so too.
	Timeout time.Duration
	// ConnectTimeout bounds the making of one connection, its login included.
	ConnectTimeout time.Duration
	// SelectionTimeout is how long an operation waits for a primary: less than
	// Timeout, or the reason for waiting is not in the error.
	SelectionTimeout time.Duration
	// PoolSize is the most connections to one server.
	PoolSize uint64
	// Dialer makes the connections; nil stands for a [net.Dialer].
	Dialer options.ContextDialer
}

// DefaultConfig returns the settings of a worker that was given nothing but
// where the store is.
func DefaultConfig() Config {
	laws := profile.DefaultConfig()
	return Config{
		Database:         "keyfold",
		Dimensions:       laws.Dimensions,
		History:          laws.History,
		Model:            laws.Model,
		Format:           Array,
		Timeout:          10 * time.Second,
		ConnectTimeout:   5 * time.Second,
		SelectionTimeout: 5 * time.Second,
		PoolSize:         16,
	}
}

// Validate reports every fault at once, by the names of the settings.
// The password is in none of them.
func (c Config) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }

	// Reading a mongodb+srv address asks the name servers: whether they answer is
	// no matter of settings.
	if err := options.Client().ApplyURI(c.URI).Validate(); err != nil && nameFault(err) == nil {
		fault("%s is not usable, expected mongodb://user:password@host:27017/ with %%-encoded user and password: %s",
			uriSetting, redact(c.URI, err.Error()))
	}
	if c.Database == "" || strings.ContainsAny(c.Database, "/\\. \"$\x00") || len(c.Database) > 63 {
		fault("%s is %q: it must be 1 to 63 bytes without slashes, dots, spaces, quotes and $", databaseSetting, c.Database)
	}
	if c.Dimensions < 1 || c.Dimensions > profile.MaxDimensions {
		fault("%s is %d: it must be between 1 and %d", dimensionsSetting, c.Dimensions, profile.MaxDimensions)
	}
	if c.History != profile.Mass && c.History != profile.UnitMass {
		fault("%s is %q: it must be %q or %q", historySetting, c.History, profile.Mass, profile.UnitMass)
	}
	if c.Format != Array && c.Format != Binary {
		fault("%s is %q: it must be %q or %q", formatSetting, c.Format, Array, Binary)
	}
	if c.Timeout < 0 || c.ConnectTimeout < 0 || c.SelectionTimeout < 0 {
		fault("store timeouts are %v, %v and %v: none may be negative", c.Timeout, c.ConnectTimeout, c.SelectionTimeout)
	}
	return errors.Join(faults...)
}

// withDefaults fills in what was left zero.
func (c Config) withDefaults() Config {
	d := DefaultConfig()
	c.Timeout = cmp.Or(c.Timeout, d.Timeout)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, d.ConnectTimeout)
	c.SelectionTimeout = cmp.Or(c.SelectionTimeout, d.SelectionTimeout)
	c.PoolSize = cmp.Or(c.PoolSize, d.PoolSize)
	return c
}

// clientOptions returns the driver's options. What the URI may not change is
// set after it.
func (c Config) clientOptions() *options.ClientOptions {
	o := options.Client().
		SetAppName(applicationName()).
		SetMaxPoolSize(c.PoolSize).
		SetConnectTimeout(c.ConnectTimeout).
		SetServerSelectionTimeout(c.SelectionTimeout).
		SetRetryWrites(true).
		SetRetryReads(true).
		// A streamed check cannot be cancelled between two answers: an error or
		// a Close that falls there waits for the next one, ten seconds. Polling
		// looks within half a second whenever an operation waits for a server.
		SetServerMonitoringMode(options.ServerMonitoringModePoll).
		SetTimeout(c.Timeout).
		ApplyURI(c.URI).
		SetReadPreference(c.readPreference()).
		SetReadConcern(readconcern.Majority()).
		SetWriteConcern(durable())
	if *o.Timeout <= 0 { // without a bound a silent server would hold events for ever
		o.SetTimeout(c.Timeout)
	}
	if c.Dialer != nil {
		o.SetDialer(c.Dialer)
	}
	return o
}

func (c Config) readPreference() *readpref.ReadPref {
	if c.Secondaries {
		return readpref.SecondaryPreferred()
	}
	return readpref.Primary()
}

// durable is a majority that has the write in its journals. A server that
// stands alone is its own majority, and would otherwise answer before.
func durable() *writeconcern.WriteConcern {
	journal := true
	return &writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}
}

// maxNameBytes is the longest appName a server takes.
const maxNameBytes = 128

// applicationName tells this process from others in the server's logs.
func applicationName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := fmt.Sprintf("keyfold %d@%s", os.Getpid(), host)
	return name[:min(len(name), maxNameBytes)]
}

// secretOption matches an option of a URI that holds a secret, such as
// tlsCertificateKeyFilePassword or authMechanismProperties.
var secretOption = regexp.MustCompile(`(?i)[?&;](\w*(?:pass|properties|token|secret)\w*)=([^&;]+)`)

// redact replaces the secrets of uri wherever text repeats them, in either spelling: the
// password, and those of the options. The URI may be malformed, so it is not parsed: the
// password begins behind the first colon after the scheme and ends before the last at sign.
func redact(uri, text string) string {
	_, rest, found := strings.Cut(uri, "://")
	if !found {
		rest = uri
	}
	var secrets []string
	for _, option := range secretOption.FindAllStringSubmatch(rest, -1) {
		secrets = append(secrets, option[2])
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if _, password, found := strings.Cut(rest[:at], ":"); found && password != "" {
			secrets = append(secrets, password)
		}
	}
	if len(secrets) == 0 {
		return text
	}
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "xxxxx")
		if plain, err := url.PathUnescape(secret); err == nil {
			text = strings.ReplaceAll(text, plain, "xxxxx")
		}
	}
	// This error quotes the piece it stumbled over, which may be the password's.
	if before, _, found := strings.Cut(text, "invalid URL escape"); found {
		text = before + "invalid URL escape: percent-encode user and password"
	}
	return text
}
