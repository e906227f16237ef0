package reader

import (
	"sync/atomic"

	"keyfold/engine"
	"keyfold/engine/metric"
)

// Stats counts since the start, except for the gauges. Its fields are read with Load.
type Stats struct {
	Chunks    atomic.Int64 // read
	Delivered atomic.Int64 // events handed over
	Malformed atomic.Int64 // messages that are no events
	Truncated atomic.Int64 // events that were gone before they were read

	Owned   atomic.Int64 // gauge: streams that this worker reads
	Workers atomic.Int64 // gauge: that share the streams
}

// Register adds the series to set.
func (r *Reader) Register(set *metric.Set) {
	s := &r.Stats
	set.Counter("keyfold_stream_read_total", "Events of streams that were handed over.", s.Delivered.Load)
	set.Counter("keyfold_stream_chunks_total", "Chunks of streams that were read.", s.Chunks.Load)
	set.Counter("keyfold_stream_truncated_total", "Events of streams that retention took before they were read.", s.Truncated.Load)
	set.Gauge("keyfold_stream_lag_seconds", "Since when the oldest event of the streams of this worker that is not settled has been in its stream; 0: all that was read is settled.", r.lag)
	set.Gauge("keyfold_stream_unread", "Streams that this worker has to read and cannot, for now.", r.unread)
	set.Gauge("keyfold_stream_owned", "Streams that this worker reads.", metric.Int(s.Owned.Load))
	set.Gauge("keyfold_stream_workers", "Workers that share the streams.", metric.Int(s.Workers.Load))
	set.Gauge("keyfold_stream_held_bytes", "Bytes of streams' events that are read and not settled.", metric.Int(r.held.now))
}

// lag is the age of the oldest event in hand, in seconds.
func (r *Reader) lag() float64 {
	now, lag := engine.Now(), engine.Millis(0)
	for _, s := range r.all() {
		if live := s.session(); live != nil {
			if at := live.oldest(); at != 0 {
				lag = max(lag, now-at)
			}
		}
	}
	return float64(lag) / 1000
}

func (r *Reader) unread() (n float64) {
	for _, s := range r.all() {
		if s.ready() != nil {
			n++
		}
	}
	return n
}
