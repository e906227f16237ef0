package explanation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"keyfold/internal/cli"
)

// Percent writes a share as it is printed.
func Percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// Print writes the view as text.
func (v *View) Print(w *cli.Text) {
	w.Line("user %d: %s", v.UserID, v.Proof())
	if v.Note != "" {
		w.Line("  %s", v.Note)
	}
	v.printOutside(w)
	if len(v.Events) > 0 {
		w.Line("  events by their share of the vector (UTC; how much of the weight is left)")
	}
	for _, p := range v.Events {
		w.Line("    %7s  %s  %-16s  %4.0f %%  %s  %s", Percent(p.Share), p.OccurredAt.UTC().Format(time.DateTime), p.Type, 100*p.Left, cli.Shorten(p.MessageID, 9), cli.Printable(p.Of))
	}
	if v.More > 0 {
		w.Line("    and %s: --events lists more", cli.Count(int64(v.More), "event"))
	}
	for _, table := range []struct {
		name string
		sums []Sum
	}{{"type", v.Types}, {"category", v.Category}, {"session", v.Sessions}, {"age at the last event", v.Ages}} {
		printSums(w, table.name, table.sums)
	}
	for _, ratio := range v.Ratios {
		w.Line("  %s", ratio)
	}
	if len(v.Nearest) > 0 {
		w.Line("  nearest products (cosine), and how much of it is of which events")
		printNear(w, v.Nearest)
	}
	if v.Product != nil {
		w.Line("  product %d", v.Product.ProductID)
		printNear(w, []Near{*v.Product})
	}
	if len(v.Rest) > 0 {
		w.Line("  nearest to the remainder")
		printNear(w, v.Rest)
	}
	for _, what := range v.WhatIf {
		what.print(w)
	}
}

// Proof says how the events compare with what is stored.
func (v *View) Proof() string {
	switch {
	case v.Folded == 0:
		return "no event is stored that the profile is of: all of it is remainder"
	case v.Equal:
		return fmt.Sprintf("refolded from %s, equal to the stored profile within %.0e", cli.Count(int64(v.Folded), "event"), max(v.Distance, 1e-17))
	}
	if v.Remainder < 0 {
		return fmt.Sprintf("%s known, but with these settings they come to more than the stored profile (remainder %s): it was made with other weights or another decay",
			cli.Count(int64(v.Folded), "event"), Percent(v.Remainder))
	}
	return fmt.Sprintf("%s known; %s of the vector is from events that are not stored any more, or were not folded as they are known now, or with other settings",
		cli.Count(int64(v.Folded), "event"), Percent(v.Remainder))
}

func (v *View) printOutside(w *cli.Text) {
	var states []string
	for _, state := range slices.Sorted(maps.Keys(v.Outside)) {
		states = append(states, fmt.Sprintf("%s %s", cli.Number(int64(v.Outside[state])), state))
	}
	if len(states) > 0 {
		w.Line("  not in the profile: %s", strings.Join(states, ", "))
	}
}

// shownSums is how many rows of a table are printed.
const shownSums = 8

func printSums(w *cli.Text, by string, sums []Sum) {
	if len(sums) == 0 {
		return
	}
	w.Line("  by %s", by)
	for _, s := range sums[:min(shownSums, len(sums))] {
		w.Line("    %7s  %s  (%s)", Percent(s.Share), cli.Printable(s.Name), cli.Count(int64(s.Events), "event"))
	}
	if more := sums[min(shownSums, len(sums)):]; len(more) > 0 {
		rest := Sum{}
		for _, s := range more {
			rest.Share += s.Share
			rest.Events += s.Events
		}
		w.Line("    %7s  %d more  (%s)", Percent(rest.Share), len(more), cli.Count(int64(rest.Events), "event"))
	}
}

func printNear(w *cli.Text, near []Near) {
	for _, n := range near {
		line := fmt.Sprintf("    %6.3f  %s", n.Cosine, cli.Printable(n.Title))
		for i, p := range n.Because {
			sep := ", "
			if i == 0 {
				sep = ": "
			}
			line += sep + p.Reason()
		}
		w.Line("%s", line)
	}
}

// Reason says what a part of a product's cosine is of.
func (p *Part) Reason() string {
	if p.Events > 1 {
		return Percent(p.Share) + " from " + cli.Count(int64(p.Events), "event") + " of " + cli.Printable(p.Of)
	}
	return Percent(p.Share) + " " + p.Type + " " + cli.Printable(p.Of)
}

func (f WhatIf) print(w *cli.Text) {
	if len(f.Nearest) == 0 && f.Cosine == 0 {
		w.Line("  %s (%s): nothing is left", f.What, cli.Count(int64(f.Events), "event"))
		return
	}
	count := ""
	if f.Events > 0 {
		count = " (" + cli.Count(int64(f.Events), "event") + ")"
	}
	w.Line("  %s%s: cosine %.4f to the stored vector; nearest", f.What, count, f.Cosine)
	printNear(w, f.Nearest)
}
