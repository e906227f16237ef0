package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"keyfold/internal/testserver/redistest"
	"keyfold/source/rabbit"
)

// Redis is killed, comes back, stops answering and answers again while searches
// go on: nothing is lost, nothing waits for it, and the profiles are the same.
//
// Promise(away/redis): A Redis that is away, slow or refuses is bypassed within 100 ms and asked again
// every 2 s; nothing is lost, and profiles are the same.
// Figure: p99 of searches before, killed, back, frozen, thawed: 0.31, 0.30, 0.30, 0.34, 0.31 s
func TestRedisComesAndGoes(t *testing.T) {
	a := newAPIStack(t).withRedis(t)
	d := a.work(t, quick).ready()
	var bodies [][]byte
	round := 0
	// Some phrases are known, some new.
	searched := func() {
		round++
		more := searches(100, 50, fmt.Sprintf("round %d ", round), func(i int) string { return fmt.Sprint("cup ", round*60+i) })
		a.publish(t, more...)
		bodies = append(bodies, more...)
		a.settled(t, a.expect(t, bodies))
	}
	away := func(want int64) {
		t.Helper()
		eventually(t, "the breaker follows Redis", func() error {
			searched()
			if n := d.metric(`keyfold_breaker_open{dependency="redis"}`); n != want {
				return fmt.Errorf("open is %d, want %d", n, want)
			}
			return nil
		})
		if _, body := d.get("/readyz"); strings.Contains(body, "Redis: away since 20") != (want == 1) || !strings.HasPrefix(body, "ok\n") {
			t.Errorf("readiness says %s", body)
		}
	}
	away(0)
	for _, fault := range []struct{ begin, end func(testing.TB) }{
		{func(testing.TB) { a.redis.Kill() }, a.redis.Restart},
		{a.redis.Freeze, a.redis.Thaw},
	} {
		fault.begin(t)
		away(1)
		fault.end(t)
		away(0)
	}
	written := d.metric("keyfold_redis_written_total")
	// Searches do not wait for the write of their vectors, which a busy machine may cut off.
	eventually(t, "vectors are written to Redis after its return", func() error {
		if searched(); d.metric("keyfold_redis_written_total") <= written {
			return errors.New("nothing is written")
		}
		return nil
	})
	if n := d.metric("keyfold_retries_total") + d.metric("keyfold_parked_total"); n != 0 {
		t.Errorf("%d searches had to come again because of Redis", n)
	}
	d.stop()
	a.emptied(t)
	if n := a.depth(t, rabbit.DefaultNames().DeadLetters); n != 0 {
		t.Errorf("%d dead letters by the absence of Redis", n)
	}
}

// A worker that starts while Redis is away works all the same, and one whose
// Redis wants another password says so.
//
// Promise(away/redis)
func TestRedisAwayAtTheStart(t *testing.T) {
	a := newAPIStack(t).withRedis(t)
	a.redis.Kill()
	d := a.work(t, quick).ready()
	bodies := searches(20, 10, "away ", func(i int) string { return fmt.Sprint("plate ", i) })
	a.publish(t, bodies...)
	a.settled(t, a.expect(t, bodies))
	d.stop()

	a.redis = redistest.Start(t, "--requirepass", "another")
	d = a.work(t, quick, "--redis-url", strings.Replace(a.redis.URL(), "redis://", "redis://:w0rd-of-redis@", 1)).ready()
	eventually(t, "the note says what to set", func() error {
		more := searches(5, 5, fmt.Sprint("wrong ", len(bodies), " "), func(i int) string { return fmt.Sprint("spoon ", len(bodies)+i) })
		a.publish(t, more...)
		bodies = append(bodies, more...)
		_, body := d.get("/readyz")
		if !strings.Contains(body, "REDIS_URL") {
			return fmt.Errorf("readiness says %s", body)
		}
		if strings.Contains(body, "w0rd-of-redis") {
			t.Errorf("a password was printed: %s", body)
		}
		return nil
	})
	a.settled(t, a.expect(t, bodies))
	if strings.Contains(d.log.String(), "w0rd-of-redis") {
		t.Errorf("a password was logged:\n%s", d.log)
	}
}
