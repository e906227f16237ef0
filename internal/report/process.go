package report

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tick is the kernel's unit of processor time, on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// Usage is what a process has used, and its children with it.
type Usage struct {
	Processor time.Duration // of the children that have ended too
	Resident  int64         // bytes of memory
}

// UsageOf reads what a process has used from /proc.
func UsageOf(pid int) (u Usage, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // the name may hold anything
	if len(fields) < 22 {
		return u, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	for i, field := range fields[11:22] { // utime, stime, cutime, cstime; the last one is rss
		n, err := strconv.ParseInt(field, 10, 64)
		switch {
		case err != nil && (i < 4 || i == 10):
			return u, err
		case i < 4:
			u.Processor += time.Duration(n) * tick
		case i == 10:
			u.Resident = n * int64(os.Getpagesize())
		}
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, child := range strings.Fields(string(children)) {
		if n, err := strconv.Atoi(child); err == nil {
			more, _ := UsageOf(n) // it may have ended since
			u.Processor, u.Resident = u.Processor+more.Processor, u.Resident+more.Resident
		}
	}
	return u, nil
}

// Watch looks at processes once a second, until stop: their memory and the processor time that
// they take are series of the report, which stop adds.
func (r *Report) Watch(ctx context.Context, processes func() map[string]int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	looks := &Report{Started: r.Started}
	var watch sync.WaitGroup
	watch.Go(func() {
		before, last := map[int]Usage{}, time.Now()
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			now := time.Now()
			for name, pid := range processes() {
				u, err := UsageOf(pid)
				if err != nil {
					continue // it has ended
				}
				looks.Point("memory", name, "MiB", float64(u.Resident)/(1<<20))
				if b, met := before[pid]; met {
					looks.Point("processor", name, "% of a core", 100*(u.Processor-b.Processor).Seconds()/now.Sub(last).Seconds())
				}
				before[pid] = u
			}
			last = now
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		watch.Wait()
		r.Series = append(r.Series, looks.Series...)
	})
}
