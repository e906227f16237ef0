package histogram

import (
	"strings"
	"testing"
	"time"
)

// A bucket includes its bound, and counts all that is below.
func TestHistogram(t *testing.T) {
	h := New("x_seconds", time.Millisecond, 2500*time.Microsecond, time.Second)
	for _, d := range []time.Duration{time.Millisecond, time.Millisecond + 1, time.Second, time.Hour} {
		h.Observe(d)
	}
	var b strings.Builder
	h.WritePrometheus(&b)
	want := `x_seconds_bucket{le="0.001"} 1
x_seconds_bucket{le="0.0025"} 2
x_seconds_bucket{le="1"} 3
x_seconds_bucket{le="+Inf"} 4
x_seconds_sum 3601.002000001
x_seconds_count 4
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
