package rediscache

import (
	"log/slog"
	"net/url"
	"time"

	"keyfold/engine"
	"keyfold/engine/breaker"
	"keyfold/engine/cure"
	"keyfold/engine/profile"
)

// Config holds the settings of a [Cache].
type Config struct {
	// URL says where Redis is. TLS is on with rediss in place of redis;
	// special characters of a password are percent-encoded; options of
	// go-redis, such as pool_size or skip_verify, follow as parameters.
	//
	//	redis://user:password@host:6379/0                  one server
	//	unix://user:password@/path/redis.sock?db=0         the same, on a socket
	//	redis://user:password@host:6379?addr=host2:6379    a cluster: one addr or more
	//	redis://host:26379/0?master_name=main&addr=host2:26379&username=user&password=secret
	//	                                                   sentinels: the user and
	//	                                                   password of the servers are
	//	                                                   parameters, those before the
	//	                                                   host are the sentinels' own
	//
	// A cluster of which one address is known names it twice. With TLS every
	// server of a cluster, and every sentinel and what it watches, has to show a
	// certificate for the URL's host; whom to trust is the process's matter
	// (SSL_CERT_FILE).
	URL string
	// Model and Dimensions are part of every key.
	Model      string
	Dimensions int
	// TTL is how long a vector is kept, give or take a tenth: what was written
	// together does not expire together.
	TTL time.Duration
	// Timeout bounds a look-up, and each step of a write.
	Timeout time.Duration
	// Failures is how many in a row open the breaker; OpenFor the time between
	// two probes while it is open.
	Failures int
	OpenFor  time.Duration
}

// DefaultConfig keeps vectors for an hour and waits for 80 ms at most. The URL
// is missing.
func DefaultConfig() Config {
	laws := profile.DefaultConfig()
	return Config{
		Model:      laws.Model,
		Dimensions: laws.Dimensions,
		TTL:        time.Hour,
		Timeout:    80 * time.Millisecond,
		Failures:   2,
		OpenFor:    2 * time.Second,
	}
}

// patience is how much longer a write may take than a look-up.
const patience = 5

// breaker goes by failures: no call takes as long as its silence.
func (c Config) breaker() breaker.Config {
	b := breaker.DefaultConfig()
	b.Failures, b.Silence, b.ProbeTimeout = c.Failures, 2*patience*c.Timeout, c.Timeout
	b.MinPause, b.MaxPause = c.OpenFor, c.OpenFor
	return b
}

// The settings that faults of the cache name.
const (
	urlSetting cure.Name = "rediscache.Config.URL"
	ttlSetting cure.Name = "rediscache.Config.TTL"
)

// Validate reports every fault at once, without a password.
func (c Config) Validate() error {
	var faults engine.Faults
	_, err := parseURL(urlSetting, c.URL)
	faults = append(faults, err)
	faults.If(c.Model == "", "Model is empty: it must name what makes the vectors")
	faults.If(c.Dimensions < 1 || c.Dimensions > profile.MaxDimensions, "Dimensions is %d: it must be between 1 and %d", c.Dimensions, profile.MaxDimensions)
	faults.If(c.TTL < time.Second, "%s is %v: it must be at least a second; leave %s out to do without", ttlSetting, c.TTL, urlSetting)
	faults.If(c.Timeout < time.Millisecond, "timeout of %v for Redis: it must be at least a millisecond", c.Timeout)
	faults.If(c.Failures < 1 || c.OpenFor <= 0, "a breaker that opens after %d failures for %v: both must be above 0", c.Failures, c.OpenFor)
	return faults.Err()
}

// String returns the URL without its secrets.
func (c Config) String() string { return redact(c.URL) }

// LogValue returns the URL without its secrets.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

const hidden = "xxxxx"

// redact hides the passwords of a URL; of one that cannot be read, everything.
func redact(text string) string {
	u, err := url.Parse(text)
	if err != nil || ambiguous(u) {
		return hidden
	}
	query := u.Query()
	for _, name := range []string{"password", "sentinel_password"} {
		if query.Has(name) {
			query.Set(name, hidden)
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}
