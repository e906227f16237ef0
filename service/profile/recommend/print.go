package recommend

import (
	"cmp"
	"fmt"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/profile/explanation"
)

// Print writes an answer to a user as text.
func (a *Answer) Print(w *cli.Text) {
	switch {
	case a.Basis == ByPopularity && len(a.Products) > 0:
		w.Line("user %d %s: the products with the most events of the last days", a.UserID, a.why)
	case a.Basis == ByPopularity:
		w.Line("user %d %s, and no product that may be shown has events", a.UserID, a.why)
	default:
		w.Line("user %d: recommended by %s, of which the newest event is of %s", a.UserID, a.vector(), a.Updated.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	if a.Note != "" {
		w.Line("  %s", a.Note)
	}
	PrintProducts(w, a)
}

// vector names what products were compared with.
func (a *Answer) vector() string {
	if a.Mix > 0 {
		return fmt.Sprintf("the profile (%.3g x its second vector + %.3g x the first)", a.Mix, 1-a.Mix)
	}
	return "the profile"
}

// PrintProducts writes an answer's products, each with the events that put it there.
func PrintProducts(w *cli.Text, a *Answer) {
	for _, p := range a.Products {
		title := cli.Printable(cmp.Or(p.Name, fmt.Sprintf("product %d", p.ID)))
		if p.Category != "" {
			title += "  (" + cli.Printable(p.Category) + ")"
		}
		if a.Basis == ByPopularity {
			w.Line("  %8s  %s", cli.Number(int64(p.Score)), title)
			continue
		}
		w.Line("  %6.3f  %s", p.Score, title)
		if a.Popularity > 0 {
			w.Line("          %3.0f %% of it popularity; of the rest, a cosine of %.3f:", 100*p.PopularityShare, p.Cosine)
		}
		for _, part := range p.Because {
			w.Line("          %3.0f %%: %s", 100*part.Share, reason(part))
		}
	}
}

// reason says what a part of a score is of.
func reason(p explanation.Part) string {
	of, at := cli.Printable(p.Of), p.OccurredAt.UTC().Format(time.DateTime)
	if p.Events > 1 {
		return fmt.Sprintf("%s, %s, the last a %s at %s", of, cli.Count(int64(p.Events), "event"), p.Type, at)
	}
	return fmt.Sprintf("%s, a %s at %s", of, p.Type, at)
}
