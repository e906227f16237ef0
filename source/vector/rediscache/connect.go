package rediscache

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"keyfold/engine"
	"keyfold/engine/cure"
)

// target is where Redis is: one of the three.
type target struct {
	single   *redis.Options
	cluster  *redis.ClusterOptions
	sentinel *redis.FailoverOptions
}

// parseURL reads a URL in the forms that [Config] names. Its errors name its setting and quote
// nothing of a URL's user part.
func parseURL(setting cure.Name, text string) (target, error) {
	const form = "it must look like redis://user:password@host:6379/0"
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || ambiguous(u) {
		return target{}, fmt.Errorf("%s cannot be read: %s, special characters of the password percent-encoded", setting, form)
	}
	var t target
	switch query := u.Query(); {
	case query.Has("master_name"):
		t.sentinel, err = redis.ParseFailoverURL(text)
	case query.Has("addr"):
		t.cluster, err = redis.ParseClusterURL(text)
		if strings.Trim(u.Path, "/0") != "" {
			err = errors.Join(err, errors.New("a cluster has no database numbers"))
		}
	default:
		t.single, err = redis.ParseURL(text)
	}
	if err != nil {
		said := err.Error()
		for _, secret := range secrets(u) {
			said = strings.ReplaceAll(said, secret, hidden)
		}
		return target{}, fmt.Errorf("%s: %s; %s", setting, said, form)
	}
	return t, nil
}

// ambiguous reports an at sign where none belongs: a password with an unescaped
// slash, question mark or hash is read as a port and what follows it, and would
// be printed as such. The path of a socket may have one.
func ambiguous(u *url.URL) bool {
	if u.Scheme != "unix" && strings.Contains(u.Path, "@") || strings.Contains(u.Fragment, "@") {
		return true
	}
	named := []string{"username", "password", "sentinel_username", "sentinel_password", "master_name"}
	for name, values := range u.Query() {
		if strings.Contains(name, "@") || !slices.Contains(named, name) && strings.Contains(strings.Join(values, ""), "@") {
			return true
		}
	}
	return false
}

func secrets(u *url.URL) (all []string) {
	if password, _ := u.User.Password(); password != "" {
		all = append(all, password)
	}
	for _, name := range []string{"password", "sentinel_password"} {
		if password := u.Query().Get(name); password != "" {
			all = append(all, password)
		}
	}
	return all
}

// tls reports whether connections are made with TLS.
func (t target) tls() bool {
	return t.single != nil && t.single.TLSConfig != nil || t.cluster != nil && t.cluster.TLSConfig != nil ||
		t.sentinel != nil && t.sentinel.TLSConfig != nil
}

// quiet turns off the library's own log, once: with Redis away it writes for
// every connection that fails. [Cache.State] and [Cache.Stats] say as much.
var quiet = sync.OnceFunc(logging.Disable)

// connect returns a client that never waits longer than timeout for a step and
// never tries one again. It connects when it is first used.
func (t target) connect(timeout time.Duration) redis.UniversalClient {
	quiet()
	if t.tls() {
		// Reading the system's authorities takes as long as a look-up may: it is
		// done before the first one. What is wrong with them the handshake says.
		_, _ = x509.SystemCertPool()
	}
	// The notices of hosted servers about their upkeep need a handshake that
	// others refuse.
	noNotices := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch {
	case t.cluster != nil:
		o := t.cluster
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
		o.ContextTimeoutEnabled, o.DisableIdentity = true, true
		o.MaxRetries, o.DialerRetries, o.PipelinePoolSize = -1, 1, -1
		o.MaintNotificationsConfig = noNotices
		return redis.NewClusterClient(o)
	case t.sentinel != nil:
		o := t.sentinel
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
		o.ContextTimeoutEnabled, o.DisableIdentity = true, true
		o.MaxRetries, o.DialerRetries, o.PipelinePoolSize = -1, 1, -1
		return redis.NewFailoverClient(o)
	default:
		o := t.single
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = timeout, timeout, timeout, timeout
		o.ContextTimeoutEnabled, o.DisableIdentity = true, true
		o.MaxRetries, o.DialerRetries, o.PipelinePoolSize = -1, 1, -1
		o.MaintNotificationsConfig = noNotices
		return redis.NewClient(o)
	}
}

// Connect returns a client for another use of Redis, which never waits longer than
// timeout for a step and never tries one again. It connects when it is first used. The
// error names setting, where the URL (in the forms of [Config]) comes from, and none of
// its secrets.
func Connect(setting cure.Name, text string, timeout time.Duration) (redis.UniversalClient, error) {
	where, err := parseURL(setting, text)
	if err != nil {
		return nil, engine.ConfigurationError("redis", err)
	}
	return where.connect(timeout), nil
}
