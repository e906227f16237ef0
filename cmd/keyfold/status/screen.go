package status

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"keyfold/internal/cli"
)

// print writes the screen.
func (r *Report) print(w *cli.Text) {
	w.Line("%s", cli.At(r.At))
	w.Line("\nSERVERS")
	for i := range r.Servers {
		if s := &r.Servers[i]; s.Error != "" {
			w.Line("✗ %-13s  %s", s.Server, s.Address) // why stands below
		} else {
			s.Print(w)
		}
	}
	table(w, "QUEUES\tREADY\tIN HAND\tOLDEST\tCONSUMERS", r.queueRows())
	if r.Workers != nil {
		w.Line("%s at the broker", cli.Count(int64(*r.Workers), "worker"))
	}
	table(w, "STREAMS\tEVENTS\tLAG\tBEHIND", r.streamRows())
	if o := r.Outbox; o != nil {
		table(w, "OUTBOX\tUNSENT\tOLDEST\tSET ASIDE\tBACKFILL", []string{
			fmt.Sprintf("\t%s\t%s\t%s\t%s", cli.Number(o.Unsent), cli.Age(seconds(o.OldestSeconds)), cli.Number(o.SetAside), cli.Number(o.Backfill)),
		})
	}
	table(w, "PROCESSES\tROLE\tVERSION\tREADY\tIN HAND\tP99 TO PROFILE\tOPEN BREAKERS", r.processRows())
	if lives := r.shortHalfLives(); len(lives) == 1 && lives[0] != "none" {
		w.Line("profiles have a second vector, half-life %s", lives[0])
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

// table writes a head and rows whose cells are divided by tabs; nothing without rows.
func table(w *cli.Text, head string, rows []string) {
	if len(rows) == 0 {
		return
	}
	var text bytes.Buffer
	cells := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(cells, head)
	for _, row := range rows {
		fmt.Fprintln(cells, row)
	}
	_ = cells.Flush() // into memory
	w.Line("")
	for line := range strings.Lines(text.String()) {
		w.Line("%s", strings.TrimRight(line, " \n"))
	}
}

// queueRows has a row for all queues of an application that hold the same.
func (r *Report) queueRows() (rows []string) {
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
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", name, cli.Number(int64(total.Ready)), known(total.Unacknowledged, func(n int) string { return cli.Number(int64(n)) }),
			known(total.OldestSeconds, func(n float64) string { return cli.Age(seconds(n)) }), consumers(first.Holds, total.Consumers)))
	}
	return rows
}

// streamRows sums the streams up: one is read as the others are, and what is not is a problem.
func (r *Report) streamRows() []string {
	if len(r.Streams) == 0 {
		return nil
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
	return []string{fmt.Sprintf("%s\t%s\t%s\t%s", cli.Count(int64(len(r.Streams)), "stream"), cli.Number(int64(held)), cli.Number(int64(lag)), text)}
}

// consumers of dead letters are tools, and of delayed messages there are none.
func consumers(holds string, n int) string {
	if holds == events || holds == dispatches {
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

func (r *Report) processRows() (rows []string) {
	for _, p := range r.Processes {
		if p.Error != "" {
			rows = append(rows, p.Address+"\t-\t-\tno answer\t-\t-\t-")
			continue
		}
		ready := "yes"
		if !p.Ready {
			ready = "no"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", p.Address, cmp.Or(strings.Join(p.Roles, ", "), "-"), cli.Printable(p.Version), ready, cli.Number(p.InHand),
			known(p.Lag99, func(n float64) string { return fmt.Sprintf("<= %v s", n) }), cmp.Or(cli.Printable(strings.Join(p.Open, ", ")), "-")))
	}
	return rows
}
