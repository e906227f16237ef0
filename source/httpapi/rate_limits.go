package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// maxSenders bounds the buckets that are kept. A sender whose bucket was evicted
// gets a full one; the total rate still applies.
const maxSenders = 16 << 10

// rateLimits holds a token bucket for each sender, by token or address.
type rateLimits struct {
	rate    Rate
	buckets *lru.Cache[string, *rate.Limiter]
}

func newRateLimits(r Rate) *rateLimits {
	buckets, _ := lru.New[string, *rate.Limiter](maxSenders) // fails for a size below 1 only
	return &rateLimits{rate: r, buckets: buckets}
}

// of returns a sender's bucket, nil where there is no bound.
func (l *rateLimits) of(key string) *rate.Limiter {
	if l.rate.PerSecond == 0 {
		return nil
	}
	if bucket, ok := l.buckets.Get(key); ok {
		return bucket
	}
	bucket := l.rate.limiter()
	if earlier, ok, _ := l.buckets.PeekOrAdd(key, bucket); ok {
		return earlier
	}
	return bucket
}

// limiter returns a full bucket, nil where there is no bound.
func (r Rate) limiter() *rate.Limiter {
	if r.PerSecond == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)
}

// take takes one request from each bucket, in order. From the first that is
// empty it takes none, and returns how long it is until that has one.
func take(now time.Time, buckets ...*rate.Limiter) (wait time.Duration) {
	for _, b := range buckets {
		if b == nil || b.AllowN(now, 1) {
			continue
		}
		missing := (1 - b.TokensAt(now)) / float64(b.Limit())
		return max(time.Duration(missing*float64(time.Second)), 1)
	}
	return 0
}

// addressOf returns the client's IPv4 address, or the /64 network of its IPv6
// address. It ignores the headers that proxies add, which clients can forge.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	network, _ := ip.Prefix(64) // fails for more than 128 bits only
	return network.String()
}
