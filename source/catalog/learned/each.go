package learned

import (
	"runtime"
	"sync/atomic"

	"github.com/sourcegraph/conc"
)

// each calls do for 0 to n-1, on all processors. What one call does depends on no other.
func each(n int, do func(i int)) {
	var next atomic.Int64
	var workers conc.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				do(int(i))
			}
		})
	}
	workers.Wait()
}
