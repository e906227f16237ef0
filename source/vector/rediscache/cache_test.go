package rediscache_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"keyfold/engine"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/redistest"
	"keyfold/source/vector/rediscache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const dimensions = 3

func newCache(t testing.TB, url string, change ...func(*rediscache.Config)) *rediscache.Cache {
	t.Helper()
	config := rediscache.DefaultConfig()
	config.URL, config.Model, config.Dimensions = url, "m", dimensions
	config.Timeout = 10 * time.Second // a busy machine is not what these tests are about
	for _, f := range change {
		f(&config)
	}
	c, err := rediscache.New(config)
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func client(t testing.TB, s *redistest.Server) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Address(), DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func vectors(n int) (phrases []string, all [][]float32) {
	for i := range n {
		phrases = append(phrases, fmt.Sprint("phrase ", i))
		all = append(all, []float32{float32(i) + 0.1, -1.5e-30, math.MaxFloat32})
		all[i][2] = 1 / float32(i+3)
	}
	return phrases, all
}

// What comes out is what went in, to the bit, under the key that is promised.
func TestKeyAndValue(t *testing.T) {
	s := redistest.Start(t)
	c := newCache(t, s.URL())
	c.Put(t.Context(), []string{"mug"}, [][]float32{{1, -2.5, 3e-9}})
	// printf mug | sha256sum
	const key = "embeddings:search:m:3:a19ee2577879b76a5b98cb022b10b3e5c5d07122267089a0505cd9ca792d304f"
	raw := client(t, s)
	keys, err := raw.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	if keys[0] != key {
		t.Fatalf("the key is %q, want %q", keys[0], key)
	}
	value, err := raw.Get(t.Context(), key).Bytes()
	must.OK(t, err)
	var want []byte
	for _, f := range []float32{1, -2.5, 3e-9} {
		want = binary.LittleEndian.AppendUint32(want, math.Float32bits(f))
	}
	if !slices.Equal(value, want) {
		t.Errorf("the value is %x, want %x", value, want)
	}
	ttl, err := raw.PTTL(t.Context(), key).Result()
	if err != nil || ttl < 53*time.Minute || ttl > 67*time.Minute {
		t.Errorf("it lives for %v, %v", ttl, err)
	}
}

func TestGetAndPut(t *testing.T) {
	s := redistest.Start(t)
	for _, url := range []string{s.URL(), s.URL() + "/3", "redis://" + s.Address() + "?protocol=2&pool_size=1"} {
		t.Run(url[len("redis://"):], func(t *testing.T) {
			c := newCache(t, url)
			phrases, all := vectors(300)
			c.Put(t.Context(), phrases[:200], all[:200])
			got := c.Get(t.Context(), phrases)
			for i := range phrases {
				if i < 200 != slices.Equal(got[i], all[i]) || (i >= 200 && got[i] != nil) {
					t.Fatalf("%s: got %v, put %v", phrases[i], got[i], all[i])
				}
			}
			if n := c.Stats().Time.Count(); n == 0 || c.Stats().Failures.Load() > n {
				t.Errorf("%d calls were timed", n)
			}
			if st := c.Stats(); st.Hits.Load() != 200 || st.Misses.Load() != 100 || st.Written.Load() != 200 ||
				st.Failures.Load() != 0 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

// Another model or another number of components is another world.
func TestModelsDoNotMeet(t *testing.T) {
	s := redistest.Start(t)
	newCache(t, s.URL()).Put(t.Context(), []string{"mug"}, [][]float32{{1, 2, 3}})
	for _, change := range []func(*rediscache.Config){
		func(c *rediscache.Config) { c.Model = "other" },
		func(c *rediscache.Config) { c.Dimensions = 2 },
	} {
		if got := newCache(t, s.URL(), change).Get(t.Context(), []string{"mug"}); got[0] != nil {
			t.Errorf("it found %v", got[0])
		}
	}
}

func TestUnusableValuesArePassedOver(t *testing.T) {
	s := redistest.Start(t)
	c, raw := newCache(t, s.URL()), client(t, s)
	phrases := []string{"short", "long", "nan", "inf", "zero", "good"}
	all := [][]float32{{1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}}
	c.Put(t.Context(), phrases, all)
	bad := map[string]string{
		"short": "\x00\x00\x80\x3f", "long": strings.Repeat("\x00\x00\x80\x3f", 4),
		"nan": strings.Repeat("\x00\x00\xc0\x7f", 3), "inf": strings.Repeat("\x00\x00\x80\x7f", 3),
		"zero": strings.Repeat("\x00", 12),
	}
	for phrase, value := range bad {
		key := rediscache.Key(c, phrase)
		if raw.Exists(t.Context(), key).Val() != 1 {
			t.Fatalf("no key %s", key)
		}
		must.OK(t, raw.Set(t.Context(), key, value, 0).Err())
	}
	got := c.Get(t.Context(), phrases)
	for i, phrase := range phrases {
		if (got[i] != nil) != (phrase == "good") {
			t.Errorf("%s: %v", phrase, got[i])
		}
	}
	if n := c.Stats().Invalid.Load(); n != 5 {
		t.Errorf("%d were counted as unusable", n)
	}
	c.Put(t.Context(), phrases, all)
	for i, v := range c.Get(t.Context(), phrases) {
		if v == nil {
			t.Errorf("%s was not written anew", phrases[i])
		}
	}
}

// Promise(away/redis-rights): A Redis that refuses user, password, right or sentinel is bypassed with
// the cure; GET, MGET, SET and SELECT are enough.
func TestPasswordsAndTheirFaults(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "se/cret")
	with := func(password string) string { return "redis://:" + url.QueryEscape(password) + "@" + s.Address() }
	phrases, all := vectors(1)
	c := newCache(t, with("se/cret"))
	c.Put(t.Context(), phrases, all)
	if got := c.Get(t.Context(), phrases); got[0] == nil {
		t.Errorf("nothing with the right password: %v", c.State())
	}
	for _, at := range []string{with("wrong"), s.URL()} {
		c := newCache(t, at)
		if err := c.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "REDIS_URL") {
			t.Errorf("no cure in %v", err)
		}
		for range 3 {
			if got := c.Get(t.Context(), phrases); got[0] != nil {
				t.Errorf("an answer without the password")
			}
		}
		if state := c.State(); !state.Open || !strings.Contains(state.Cause.Error(), "REDIS_URL") {
			t.Errorf("state %+v", state)
		}
	}
}

// A Redis at one of its limits is told as that, with its cure.
func TestLimitsOfRedis(t *testing.T) {
	s := redistest.Start(t, "--maxclients", "3")
	admin := client(t, s)
	cause := func(want string) {
		t.Helper()
		c := newCache(t, s.URL())
		phrases, all := vectors(1)
		for range 9 { // until the breaker opens
			c.Put(t.Context(), phrases, all)
		}
		if cause := c.State().Cause; cause == nil || !strings.Contains(cause.Error(), want) {
			t.Errorf("the cause is %v, want %s", cause, want)
		}
	}
	set := func(name, value string) {
		t.Helper()
		must.OK(t, admin.ConfigSet(t.Context(), name, value).Err())
	}
	set("maxmemory", "1")
	cause("Redis is out of memory; raise maxmemory, or")
	set("maxmemory", "0")
	set("maxclients", "1")
	cause("maxclients") // its answer may be lost with the connection
}

func TestCluster(t *testing.T) {
	nodes := redistest.Cluster(t, 2)
	phrases, all := vectors(100)
	c := newCache(t, nodes[0].URL()+"?addr="+nodes[1].Address())
	c.Put(t.Context(), phrases, all)
	for i, v := range c.Get(t.Context(), phrases) {
		if !slices.Equal(v, all[i]) {
			t.Fatalf("%s: %v, %+v", phrases[i], v, c.State())
		}
	}
	for _, node := range nodes {
		if node.Do(t, "DBSIZE") == ":0" {
			t.Error("a node holds nothing")
		}
	}
	one := newCache(t, nodes[0].URL())
	for range 3 {
		one.Get(t.Context(), phrases)
	}
	if state := one.State(); !state.Open || !strings.Contains(state.Cause.Error(), "?addr=") && !strings.Contains(state.Cause.Error(), "CROSSSLOT") {
		t.Errorf("a node taken for a server: %+v", state)
	}
}

func TestSentinel(t *testing.T) {
	master := redistest.Start(t)
	sentinel := master.Sentinel(t, "main")
	c := newCache(t, sentinel.URL()+"/1?master_name=main&addr="+sentinel.Address())
	phrases, all := vectors(10)
	c.Put(t.Context(), phrases, all)
	if got := c.Get(t.Context(), phrases); got[9] == nil {
		t.Errorf("nothing behind the sentinel: %+v", c.State())
	}
	if got := client(t, master).Keys(t.Context(), "*").Val(); len(got) != 0 {
		t.Errorf("written to database 0: %q", got)
	}
}

// A dead Redis costs some quick failures, then nothing, and is found again though no search comes.
//
// Promise(away/redis)
func TestKilledAndRestarted(t *testing.T) {
	s := redistest.Start(t)
	c := newCache(t, s.URL(), func(c *rediscache.Config) { c.OpenFor = 50 * time.Millisecond })
	phrases, all := vectors(10)
	c.Put(t.Context(), phrases, all)
	s.Kill()
	for range 20 {
		if got := c.Get(t.Context(), phrases); got[0] != nil {
			t.Fatal("an answer from a dead server")
		}
	}
	st := c.Stats()
	if !c.State().Open || st.Bypassed.Load() == 0 || st.Failures.Load() < 2 {
		t.Fatalf("failures %d, bypassed %d, %+v", st.Failures.Load(), st.Bypassed.Load(), c.State())
	}
	s.Restart(t)
	for limit := time.Now().Add(time.Minute); c.State().Open; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not found again: %+v", c.State())
		}
	}
	if got := c.Get(t.Context(), phrases); !slices.Equal(got[9], all[9]) {
		t.Errorf("after the restart: %v", got[9])
	}
}

// A Redis that accepts and says nothing is waited for within the timeout, on a
// connection there is and on a new one, and not at all once it is known.
//
// Promise(away/redis-tls)
func TestFrozen(t *testing.T) {
	authority := redistest.NewAuthority(t)
	for i := range 4 {
		warm, secure := i%2 == 0, i/2 == 1
		t.Run(fmt.Sprint("warm ", warm, ", TLS ", secure), func(t *testing.T) {
			s := redistest.Start(t, authority.Issue(t, nil)...)
			at := s.URL()
			if secure {
				at = s.TLSURL() + "?skip_verify=true"
			}
			c := newCache(t, at, func(c *rediscache.Config) {
				c.Timeout, c.OpenFor = time.Second, time.Hour
			})
			phrases, all := vectors(2)
			if warm {
				for limit := time.Now().Add(time.Minute); c.Get(t.Context(), phrases)[0] == nil; {
					if c.Put(t.Context(), phrases, all); time.Now().After(limit) {
						t.Fatalf("no answer for a minute: %+v", c.State())
					}
				}
			}
			s.Freeze(t)
			failed := c.Stats().Failures.Load()
			for i := range 12 {
				begun := time.Now()
				if i%4 == 3 {
					c.Put(t.Context(), phrases, all)
				} else if got := c.Get(t.Context(), phrases); got[0] != nil {
					t.Fatal("an answer from a frozen server")
				}
				t.Logf("call %d: %v", i, time.Since(begun))
			}
			st := c.Stats()
			if n := st.Failures.Load() - failed; n > 2 || st.Bypassed.Load() < 10 {
				t.Errorf("%d failures, %d bypassed", n, st.Bypassed.Load())
			}
		})
	}
}

// A caller that leaves is no failure of Redis.
func TestCallerLeaves(t *testing.T) {
	s := redistest.Start(t)
	c := newCache(t, s.URL())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	phrases, _ := vectors(1)
	for range 5 {
		c.Get(ctx, phrases)
	}
	if c.State().Open || c.Stats().Failures.Load() != 0 {
		t.Errorf("state %+v", c.State())
	}
}

// Promise(security/secrets)
func TestConfigNamesEveryFaultAndNoSecret(t *testing.T) {
	for _, at := range []string{
		"", "localhost:6379", "http://u:hunter2@h", "redis://u:hunter2@h/x", "redis://u:hunter2@h:port",
		"redis://u:hunter2%@h", "redis://u:hunter2@h?no_such=1", "redis://u:hunter2@h/1?addr=h2:1",
		"redis://h?master_name=m&password=hunter2&addr=h2",
		// Unescaped passwords: 12/hunter2 and so on.
		"redis://u:12/hunter2@h", "redis://u:12?hunter2@h", "redis://u:12?hunter2=1@h", "redis://u:12#hunter2@h", "redis://u:1@2/hunter2@h",
	} {
		config := rediscache.DefaultConfig()
		config.URL, config.TTL = at, 0
		_, err := rediscache.New(config)
		if engine.KindOf(err) != engine.Configuration || !strings.Contains(err.Error(), "rediscache.Config.URL") ||
			!strings.Contains(err.Error(), "rediscache.Config.TTL") {
			t.Errorf("%q: %v", at, err)
		}
		if text := fmt.Sprintf("%v %v %s", err, config, config.LogValue()); strings.Contains(text, "hunter2") {
			t.Errorf("the password shows: %s", text)
		}
	}
	config := rediscache.DefaultConfig()
	config.URL = "redis://u:hunter2@h/hunter2" // the library quotes the path
	if err := config.Validate(); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the password shows: %v", err)
	}
	config.URL = "rediss://u:hunter2@h:6380/2?skip_verify=true"
	if err := config.Validate(); err != nil {
		t.Error(err)
	}
	if text := fmt.Sprintf("%v", config); strings.Contains(text, "hunter2") || !strings.Contains(text, "h:6380") {
		t.Errorf("printed as %s", text)
	}
}
