package ingest

import (
	"net"
	"net/http"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// maxSenders bounds the buckets that are kept. Who comes back after so many
// others finds a full one; the bound on all requests together stays.
const maxSenders = 16 << 10

// senders are the buckets of those who send, by token or address.
type senders struct {
	rate    Rate
	buckets *lru.Cache[string, *rate.Limiter]
}

func newSenders(r Rate) *senders {
	buckets, _ := lru.New[string, *rate.Limiter](maxSenders) // fails for a size below 1 only
	return &senders{rate: r, buckets: buckets}
}

// of returns a sender's bucket, nil where there is no bound.
func (s *senders) of(key string) *rate.Limiter {
	if s.rate.PerSecond == 0 {
		return nil
	}
	if bucket, ok := s.buckets.Get(key); ok {
		return bucket
	}
	bucket := s.rate.limiter()
	if earlier, ok, _ := s.buckets.PeekOrAdd(key, bucket); ok {
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

// addressOf names whom a request came from: an IPv4 address, or the /64 that an
// IPv6 host has to itself. Headers that proxies add are not believed.
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
