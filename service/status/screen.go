package status

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"keyfold/internal/cli"
)

// Print writes the screen.
func (r *Report) Print(w *cli.Text) {
	w.Line("%s", cli.At(r.At))
	w.Line("\nSERVERS")
	for i := range r.Servers {
		if s := &r.Servers[i]; s.Error != "" {
			w.Line("✗ %-13s  %s", s.Server, s.Address) // why stands below
		} else {
			s.Print(w)
		}
	}
	r.QueueTable().print(w)
	if r.Workers != nil {
		w.Line("%s", r.WorkersLine())
	}
	r.StreamTable().print(w)
	r.OutboxTable().print(w)
	r.ProcessTable().print(w)
	if line := r.SecondVectorLine(); line != "" {
		w.Line("%s", line)
	}
	if len(r.Notes) > 0 {
		w.Line("\nNOT SEEN")
	}
	for _, note := range r.Notes {
		w.Line("- %s", note)
	}
	r.printProblems(w)
}

func (r *Report) printProblems(w *cli.Text) {
	if len(r.Problems) == 0 {
		w.Line("\nNothing needs a person.")
		return
	}
	w.Line("\nNEEDS A PERSON")
	for _, p := range r.Problems {
		w.Line("✗ %s: %s", p.About, cli.Printable(p.Text))
		if p.Cure != "" {
			w.Line("    %s", p.Cure)
		}
		if p.Runbook != "" {
			w.Line("    docs/RUNBOOK.md#%s", p.Runbook)
		}
	}
}

// WorkersLine says how many workers the broker knows; "" where that is not known.
func (r *Report) WorkersLine() string {
	if r.Workers == nil {
		return ""
	}
	return cli.Count(int64(*r.Workers), "worker") + " at the broker"
}

// SecondVectorLine says which second vector profiles have; "": none.
func (r *Report) SecondVectorLine() string {
	if lives := r.ShortHalfLives(); len(lives) == 1 && lives[0] != "none" {
		return "profiles have a second vector, half-life " + lives[0]
	}
	return ""
}

// Table is a part of the report as it is shown. The first column has names, and its head that of
// the table.
type Table struct {
	Head []string
	Rows [][]string
}

// print writes the table; nothing without rows.
func (t Table) print(w *cli.Text) {
	if len(t.Rows) == 0 {
		return
	}
	var text bytes.Buffer
	cells := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		fmt.Fprintln(cells, strings.Join(row, "\t"))
	}
	_ = cells.Flush() // into memory
	w.Line("")
	for line := range strings.Lines(text.String()) {
		w.Line("%s", strings.TrimRight(line, " \n"))
	}
}

// OutboxTable has what waits in the outbox; no rows without one.
func (r *Report) OutboxTable() Table {
	t := Table{Head: []string{"OUTBOX", "UNSENT", "OLDEST", "SET ASIDE", "BACKFILL"}}
	if o := r.Outbox; o != nil {
		t.Rows = [][]string{{"", cli.Number(o.Unsent), cli.Age(seconds(o.OldestSeconds)), cli.Number(o.SetAside), cli.Number(o.Backfill)}}
	}
	return t
}

// QueueTable has a row for all queues of an application that hold the same.
func (r *Report) QueueTable() Table {
	t := Table{Head: []string{"QUEUES", "READY", "IN HAND", "OLDEST", "CONSUMERS"}}
	for i, first := range r.Queues {
		same := func(q Queue) bool { return q.Of == first.Of && q.Holds == first.Holds }
		if i > 0 && same(r.Queues[i-1]) {
			continue
		}
		n, total := 0, Queue{}
		for _, q := range r.Queues[i:] {
			if same(q) {
				n++
				total.add(q)
			}
		}
		name := first.Of + ": " + first.Holds
		if n > 1 {
			name += fmt.Sprintf(" (%d queues)", n)
		}
		t.Rows = append(t.Rows, []string{
			name, cli.Number(int64(total.Ready)), known(total.Unacknowledged, func(n int) string { return cli.Number(int64(n)) }),
			known(total.OldestSeconds, func(n float64) string { return cli.Age(seconds(n)) }), consumers(first.Holds, total.Consumers),
		})
	}
	return t
}

// StreamTable sums the streams up: one is read as the others are, and what is not is a problem.
func (r *Report) StreamTable() Table {
	t := Table{Head: []string{"STREAMS", "EVENTS", "LAG", "BEHIND"}}
	if len(r.Streams) == 0 {
		return t
	}
	var held, lag uint64
	behind := 0.0
	for _, s := range r.Streams {
		held, lag, behind = held+s.End-s.First, lag+s.Lag, max(behind, s.Behind)
	}
	text := "-"
	if lag > 0 {
		text = cli.Age(seconds(behind))
	}
	t.Rows = [][]string{{cli.Count(int64(len(r.Streams)), "stream"), cli.Number(int64(held)), cli.Number(int64(lag)), text}}
	return t
}

// consumers of dead letters are tools, and of delayed messages there are none.
func consumers(holds string, n int) string {
	if holds == Events || holds == Dispatches {
		return cli.Number(int64(n))
	}
	return "-"
}

// add sums queues up; of the times the longest stays.
func (q *Queue) add(other Queue) {
	q.Ready += other.Ready
	q.Consumers += other.Consumers
	if n := other.Unacknowledged; n != nil {
		sum := *n
		if q.Unacknowledged != nil {
			sum += *q.Unacknowledged
		}
		q.Unacknowledged = &sum
	}
	if t := other.OldestSeconds; t != nil && (q.OldestSeconds == nil || *t > *q.OldestSeconds) {
		q.OldestSeconds = t
	}
}

// known writes a figure, and "-" for one that is not known.
func known[T any](n *T, text func(T) string) string {
	if n == nil {
		return "-"
	}
	return text(*n)
}

// ProcessTable has a row for each process.
func (r *Report) ProcessTable() Table {
	t := Table{Head: []string{"PROCESSES", "ROLE", "VERSION", "READY", "IN HAND", "P99 TO PROFILE", "OPEN BREAKERS"}}
	for i := range r.Processes {
		t.Rows = append(t.Rows, r.Processes[i].row())
	}
	return t
}

func (p *Process) row() []string {
	if p.Error != "" {
		return []string{p.Address, "-", "-", "no answer", "-", "-", "-"}
	}
	ready := "yes"
	if !p.Ready {
		ready = "no"
	}
	return []string{
		p.Address, cmp.Or(strings.Join(p.Roles, ", "), "-"), cli.Printable(p.Version), ready, cli.Number(p.InHand),
		known(p.Lag99, func(n float64) string { return fmt.Sprintf("<= %v s", n) }), cmp.Or(cli.Printable(strings.Join(p.Open, ", ")), "-"),
	}
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
