package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"keyfold/internal/testserver/redistest"
	"keyfold/source/rabbit"
)

// A Redis whose certificate no authority vouches for costs requests, never an event,
// and the worker says what to do.
//
// Promise(away/redis-tls)
func TestRedisCertificateCostsNoEvent(t *testing.T) {
	a := newAPIStack(t)
	redis := redistest.Start(t, redistest.NewAuthority(t).Issue(t, nil)...)
	d := a.work(t, quick, "--redis-url", strings.Replace(redis.TLSURL(), "rediss://", "rediss://:w0rd-of-redis@", 1)).ready()
	bodies := searches(50, 20, "tls ", func(i int) string { return fmt.Sprint("fork ", i) })
	a.publish(t, bodies...)
	a.settled(t, a.expect(t, bodies))
	eventually(t, "the note says what to set", func() error {
		code, body := d.get("/readyz")
		if code == http.StatusOK && strings.Contains(body, "SSL_CERT_FILE") {
			return nil
		}
		// A busy machine may not come as far as the certificate: Redis is asked again.
		more := searches(1, 20, fmt.Sprint("tls again ", len(bodies), " "), func(int) string { return fmt.Sprint("spoon ", len(bodies)) })
		a.publish(t, more...)
		bodies = append(bodies, more...)
		return fmt.Errorf("readiness says %d %s", code, body)
	})
	a.settled(t, a.expect(t, bodies))
	if n := d.metric("keyfold_retries_total") + d.metric("keyfold_parked_total"); n != 0 {
		t.Errorf("%d searches had to come again because of Redis", n)
	}
	d.stop()
	a.emptied(t)
	if n := a.depth(t, rabbit.DefaultNames().DeadLetters); n != 0 {
		t.Errorf("%d dead letters by a certificate", n)
	}
	if strings.Contains(d.log.String(), "w0rd-of-redis") {
		t.Errorf("a password was logged:\n%s", d.log)
	}
}
