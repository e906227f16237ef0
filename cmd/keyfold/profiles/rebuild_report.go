package profiles

import (
	"log/slog"
	"math"

	"gonum.org/v1/gonum/floats"

	"keyfold/engine/profile"
	"keyfold/internal/cli"
)

// rebuilt counts users.
type rebuilt struct {
	Replaced int     `json:"replaced"`
	Same     int     `json:"unchanged"` // within 1e-9
	Refused  int     `json:"refused"`   // fewer events than the profile counts
	Failed   int     `json:"failed"`    // their profile or their history is faulty
	Dropped  int     `json:"second_vectors_removed"`
	Skipped  int     `json:"skipped"`  // erased, or nothing to fold
	Compared int     `json:"compared"` // with a stored profile of the same kind: those below
	Lowest   float64 `json:"lowest_cosine"`
	Largest  float64 `json:"largest_difference"`
	DryRun   bool    `json:"dry_run"`
	Last     int32   `json:"last_user_id"`
}

// compare notes how far the stored profile is from the one made anew, and
// reports whether they are one.
func (r *rebuilder) compare(user int32, old, next *profile.Profile) bool {
	if old == nil || len(old.Vector) != len(next.Vector) || old.History != next.History || (old.Model != "" && old.Model != next.Model) {
		return false
	}
	r.done.Compared++
	cosine := floats.Dot(old.Vector, next.Vector)
	largest := floats.Distance(old.Vector, next.Vector, math.Inf(1))
	r.done.Lowest, r.done.Largest = min(r.done.Lowest, cosine), max(r.done.Largest, largest)
	same := largest <= 1e-9 && sameShort(old.Short, next.Short) && math.Abs(old.Mass-next.Mass) <= 1e-9*max(1, next.Mass) &&
		old.EventCount == next.EventCount && old.Updated == next.Updated && old.LastType == next.LastType
	if !same {
		r.Log.Info("profile differs from its history", slog.Int("user_id", int(user)), slog.Float64("cosine", cosine),
			slog.Float64("largest_difference", largest), slog.Int64("events", next.EventCount), slog.Int64("events_stored", old.EventCount))
	}
	return same
}

func sameShort(old, next profile.Short) bool {
	return old.HalfLife == next.HalfLife && len(old.Vector) == len(next.Vector) && math.Abs(old.Mass-next.Mass) <= 1e-9*max(1, next.Mass) &&
		floats.Distance(old.Vector, next.Vector, math.Inf(1)) <= 1e-9
}

// print writes the report; all says that it is of many users.
func (d *rebuilt) print(w *cli.Text, all bool) {
	verb := "replaced"
	if d.DryRun {
		verb = "would be replaced"
	}
	switch {
	case all:
		w.Line("%s %s, %d unchanged, %d refused, %d failed, %d skipped (erased, or without an event that can be folded)",
			cli.Count(int64(d.Replaced), "user"), verb, d.Same, d.Refused, d.Failed, d.Skipped)
	case d.Same > 0:
		w.Line("user %d: as the history makes it", d.Last)
	case d.Replaced > 0:
		w.Line("user %d: %s", d.Last, verb)
	}
	if d.Dropped > 0 {
		w.Line("%s without the earlier second vector: EMBEDDING_SHORT_HALF_LIFE is not set; with it, run again", cli.Count(int64(d.Dropped), "profile"))
	}
	if d.Compared > 0 {
		w.Line("lowest cosine %.9f, largest difference of a component %.3g", d.Lowest, d.Largest)
	}
}
