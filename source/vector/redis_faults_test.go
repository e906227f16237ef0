package vector_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/redistest"
)

// distinct are n phrases that no other name has.
func distinct(name string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(name, " ", i)
	}
	return all
}

// The master behind a sentinel is killed while searches go on: every one has its
// vector throughout, from whoever has it, and what was in Redis before is found
// on the new master.
//
// Promise(away/redis-failover)
func TestRedisFailsOverInTheRun(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{})
	master := redistest.Start(t)
	replica := master.Replica(t)
	sentinel := master.Sentinel(t, "main")
	behind := func(c *settings) {
		c.shared.URL, c.shared.OpenFor = sentinel.URL()+"?master_name=main", 50*time.Millisecond
	}
	w := newWorker(t, s, nil, behind)
	check := right(t)
	before := distinct("before", 500)
	flushes(t, w, before, check)
	must.Hold(t, "a replica that has all", func() bool { return replica.Do(t, "DBSIZE") == ":500" })

	sentinel.Wait(t, "main", redistest.Hasty)
	master.Kill()
	rounds := 0
	must.Hold(t, "a new master in use", func() bool {
		rounds++
		written := w.redis.Stats().Written.Load()
		flushes(t, w, distinct(fmt.Sprint("meanwhile ", rounds), 100), check)
		return strings.Contains(replica.Info("replication"), "role:master") && !w.redis.State().Open && w.redis.Stats().Written.Load() > written
	})
	if st := w.redis.Stats(); st.Failures.Load() == 0 || st.Bypassed.Load() == 0 {
		t.Errorf("%d failures, %d bypassed: the death went unnoticed", st.Failures.Load(), st.Bypassed.Load())
	}
	t.Logf("%d searches meanwhile", rounds*100)

	asked := s.Counts().Inputs
	after := newWorker(t, s, nil, behind)
	flushes(t, after, before, check)
	if n := s.Counts().Inputs - asked; n != 0 {
		t.Errorf("%d of 500 phrases were not on the new master: %+v", n, after.redis.State())
	}
}

// A Redis whose certificate no authority vouches for is bypassed: every search has
// its vector, none waits, and the cure is said.
//
// Promise(away/redis-tls)
func TestRedisCertificateNotTrusted(t *testing.T) {
	s := embedtest.Start(t, embedtest.Config{})
	r := redistest.Start(t, redistest.NewAuthority(t).Issue(t, nil)...)
	w := newWorker(t, s, nil, func(c *settings) { c.shared.URL = r.TLSURL() })
	flushes(t, w, distinct("untrusted", 500), right(t))
	if state := w.redis.State(); !state.Open || !strings.Contains(state.Cause.Error(), "SSL_CERT_FILE") {
		t.Errorf("state %+v", state)
	}
	if n := r.Do(t, "DBSIZE"); n != ":0" {
		t.Errorf("it holds %s", n)
	}
}
