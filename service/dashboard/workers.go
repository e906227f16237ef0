package dashboard

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"keyfold/internal/chart"
	"keyfold/internal/cli"
	"keyfold/service/status"
	"keyfold/source/httpapi"
)

// maxProcesses bounds the page of processes.
const maxProcesses = 80

// workers shows the processes, one by one.
type workers struct {
	Fault     string
	Processes []process
	More      int
	Owned     *partitions // nil: there are none
	Lines     []string
	Notes     []string
}

// process is a row.
type process struct {
	status.Process
	ID         string
	Role       string
	State      string // ok, warn or wrong
	Why        []string
	InHandText string
	Lag        string
	Partitions string // owned, and the mark of their cells; "-": none to own
	Memory     string
	Breakers   string
	Up         string // since it began
	Last       string // when it answered, where it does not now
}

func (d *Dashboard) workers(r *httpapi.Request) *httpapi.Answer {
	seen := d.watch.current(r.Context())
	return d.page(r, "workers", "Workers", seen, workersOf(seen))
}

func workersOf(seen *snapshot) workers {
	w := workers{Fault: seen.Fault}
	r := seen.Report
	if r == nil {
		w.Fault = cmp.Or(w.Fault, errFirstLook.Error())
		return w
	}
	w.Owned = partitionsOf(r.Processes)
	for i := range r.Processes {
		if i == maxProcesses {
			w.More = len(r.Processes) - maxProcesses
			break
		}
		row := processOf(&r.Processes[i], seen)
		if w.Owned != nil && w.Owned.marks[row.Address] != "" {
			row.Partitions += " " + w.Owned.marks[row.Address]
		}
		w.Processes = append(w.Processes, row)
	}
	for _, line := range []string{r.WorkersLine(), r.SecondVectorLine()} {
		if line != "" {
			w.Lines = append(w.Lines, line)
		}
	}
	if len(r.Processes) == 0 {
		w.Notes = r.Notes[:min(maxNotes, len(r.Notes))]
	}
	return w
}

func processOf(p *status.Process, seen *snapshot) process {
	row := process{
		Process: *p, ID: identifier("process", p.Address), Role: cmp.Or(strings.Join(p.Roles, ", "), "-"), State: "ok",
		InHandText: cli.Number(p.InHand), Lag: "-", Partitions: "-", Memory: "-", Up: "-", Breakers: cmp.Or(strings.Join(p.Open, ", "), "-"),
	}
	if p.Lag99 != nil {
		row.Lag = fmt.Sprintf("<= %v s", *p.Lag99)
	}
	if n, known := p.Figures["keyfold_partitions_owned"]; known {
		row.Partitions = cli.Number(int64(n))
	}
	if n, known := p.Figures["keyfold_stream_owned"]; known && n > 0 {
		row.Partitions = cli.Count(int64(n), "stream")
	}
	if n, known := p.Figures["process_resident_memory_bytes"]; known {
		row.Memory = chart.Figure(n/(1<<20)) + " MB"
	}
	if began, known := p.Figures["process_start_time_seconds"]; known {
		row.Up = cli.Age(seen.Report.At.Sub(time.Unix(int64(began), 0)))
	}
	switch {
	case p.Error != "":
		row.State, row.Why = "wrong", []string{p.Error}
		if at, once := seen.Seen[p.Address]; once {
			row.Last = cli.Age(seen.Report.At.Sub(at)) + " ago"
		}
	case !p.Ready:
		row.State, row.Why = "wrong", append([]string{p.Reason}, p.Remarks...)
	case len(p.Remarks) > 0:
		row.State, row.Why = "warn", p.Remarks
	}
	return row
}
