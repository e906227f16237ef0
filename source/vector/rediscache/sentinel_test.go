package rediscache_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/redistest"
	"keyfold/source/vector/rediscache"
)

// The master behind a sentinel is killed, or falls silent. Until the sentinel
// has made the replica the master, and said so, the cache is bypassed; then it
// is used again, with what was written before, and the old master comes back as
// the replica.
//
// Promise(away/redis-failover): Redis is bypassed until the sentinel names the new master, then used
// again with what was replicated; vectors stay the same.
// Figure: used again 1.1 s after the kill, with down-after-milliseconds 500
func TestSentinelFailover(t *testing.T) {
	for name, fault := range map[string]struct {
		begin, end func(*redistest.Server, testing.TB)
	}{
		"killed": {func(s *redistest.Server, _ testing.TB) { s.Kill() }, (*redistest.Server).Restart},
		"frozen": {(*redistest.Server).Freeze, (*redistest.Server).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of it is waiting: a sentinel lets an old master be for 8 s
			master := redistest.Start(t)
			replica := master.Replica(t)
			sentinel := master.Sentinel(t, "main")
			c := newCache(t, sentinel.URL()+"/1?master_name=main", func(c *rediscache.Config) {
				c.Timeout, c.OpenFor = 100*time.Millisecond, 50*time.Millisecond
			})
			phrases, all := vectors(20)
			look := func() (found int) {
				for i, v := range c.Get(t.Context(), phrases) {
					if v == nil {
						continue
					}
					if found++; !slices.Equal(v, all[i]) {
						t.Fatalf("%s: %v, put %v", phrases[i], v, all[i])
					}
				}
				return found
			}
			must.Hold(t, "a replica that has all", func() bool {
				c.Put(t.Context(), phrases, all)
				return strings.Contains(replica.Info("keyspace"), "db1:keys=20,")
			})
			must.Hold(t, "a warm cache", func() bool { return look() == len(phrases) })

			failed, bypassed := c.Stats().Failures.Load(), c.Stats().Bypassed.Load()
			sentinel.Wait(t, "main", redistest.Hasty)
			fault.begin(master, t)
			must.Hold(t, "bypassed", func() bool { look(); return c.State().Open })
			must.Hold(t, "a cache that is used again", func() bool { return look() == len(phrases) && !c.State().Open })
			sentinel.Wait(t, "main", redistest.Patient)
			failed, bypassed = c.Stats().Failures.Load()-failed, c.Stats().Bypassed.Load()-bypassed
			if bypassed == 0 {
				t.Errorf("%d failures, and nothing was bypassed", failed)
			}
			t.Logf("%d failures, %d bypassed", failed, bypassed)
			if role := replica.Info("replication"); !strings.Contains(role, "role:master") {
				t.Errorf("the cache was used again without a new master:\n%s", role)
			}

			fault.end(master, t)
			more, others := vectors(40)
			must.Hold(t, "both servers with what is new, the old master as a replica", func() bool {
				c.Put(t.Context(), more, others)
				return strings.Contains(master.Info("replication"), "role:slave") &&
					strings.Contains(master.Info("keyspace"), "db1:keys=40,")
			})
			must.Hold(t, "a cache as before", func() bool { return look() == len(phrases) && !c.State().Open })
		})
	}
}

// A sentinel is asked for new connections only.
//
// Promise(away/redis-failover)
func TestSentinelAway(t *testing.T) {
	master := redistest.Start(t)
	sentinel := master.Sentinel(t, "main")
	c := newCache(t, sentinel.URL()+"?master_name=main")
	phrases, all := vectors(5)
	c.Put(t.Context(), phrases, all)
	sentinel.Kill()
	if got := c.Get(t.Context(), phrases); !slices.Equal(got[4], all[4]) {
		t.Errorf("without a sentinel: %v, %+v", got[4], c.State())
	}
}

// Sentinels and servers have users and passwords of their own.
//
// Promise(away/redis-rights)
func TestSentinelPasswords(t *testing.T) {
	master := redistest.Start(t, "--user", "shop", "on", ">of the/server", "~embeddings:*", "+get", "+mget", "+set", "+select")
	sentinel := master.Sentinel(t, "main")
	sentinel.Do(t, "ACL", "SETUSER", "watcher", "on", ">of:the@sentinel", "+@all")
	const right = "watcher:of%3Athe%40sentinel@"
	at := func(user, query string) string {
		return "redis://" + user + sentinel.Address() + "/1?username=shop&" + query
	}
	c := newCache(t, at(right, "master_name=main&password=of%20the%2Fserver"))
	phrases, all := vectors(1)
	c.Put(t.Context(), phrases, all)
	if got := c.Get(t.Context(), phrases); got[0] == nil || c.Ping(t.Context()) != nil {
		t.Errorf("nothing with the right passwords: %+v", c.State())
	}
	for _, x := range []struct{ name, url, cure string }{
		{"server", at(right, "master_name=main&password=wrong"), "right user and password"},
		{"sentinel", at("watcher:wrong@", "master_name=main&password=of%20the%2Fserver"), "right user and password"},
		{"name", at(right, "master_name=other&password=of%20the%2Fserver"), "master_name in REDIS_URL"},
	} {
		if err := newCache(t, x.url).Ping(t.Context()); err == nil || !strings.Contains(err.Error(), x.cure) || strings.Contains(err.Error(), "of the") {
			t.Errorf("wrong %s: %v", x.name, err)
		}
	}
}
