package httpapi

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"keyfold/engine/metric"
)

// Stats counts since the start, except for the gauge.
type Stats struct {
	InFlight  atomic.Int64 // gauge: requests being answered
	Abandoned atomic.Int64 // requests whose sender left before the answer

	Latency  *metric.Histogram // of POSTs
	statuses [600]atomic.Int64 // requests by status
}

// Register adds the series of the handler and of its access control to set. Statuses that never
// were are left out, but for those of servers that are away: a rate of them begins at 0.
func (s *Server) Register(set *metric.Set) {
	h := &s.handler.stats
	for status := http.StatusContinue; status < len(h.statuses); status++ {
		set.Counter(fmt.Sprintf(`keyfold_ingest_requests_total{status="%d"}`, status), "Requests by the status of their answer.", func() int64 {
			n := h.statuses[status].Load()
			if n == 0 && status != http.StatusInternalServerError && status != http.StatusServiceUnavailable {
				return -1
			}
			return n
		})
	}
	set.Counter("keyfold_ingest_requests_abandoned_total", "Requests whose sender left before the answer.", h.Abandoned.Load)
	set.Gauge("keyfold_ingest_requests_in_flight", "Requests being answered.", metric.Int(h.InFlight.Load))
	set.Histogram("keyfold_ingest_request_duration_seconds", "From the head of a POST to its answer.", h.Latency)
	set.Gauge("keyfold_ingest_token_file_faulty", "1 while the file of tokens cannot be read or has an unusable line.", func() float64 {
		if s.TokenFault() != nil {
			return 1
		}
		return 0
	})
}

// newLatency has a bucket that ends at the promised 200 ms.
func newLatency() *metric.Histogram {
	const ms = time.Millisecond
	return metric.NewHistogram(ms, 5*ms/2, 5*ms, 10*ms, 25*ms, 50*ms, 100*ms, 200*ms, 500*ms, 1000*ms, 2500*ms, 5000*ms, 10000*ms, 30000*ms)
}
