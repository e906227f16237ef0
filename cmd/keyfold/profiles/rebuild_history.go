package profiles

import (
	"fmt"
	"iter"
	"log/slog"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/engine/profile/processor"
	"keyfold/internal/cli"

	"keyfold/source/outbox"
)

// history is what a user's profile is made from. The counts are of what was read so far.
type history struct {
	all     iter.Seq2[processor.HistoryEvent, error]
	lacking map[profile.AppliedID]bool // folded into the stored profile, and not read

	rows    int64
	unsent  int64 // left out: they wait to be published
	damaged int64 // left out: they hold no event
}

// history yields the user's events that were published, and those the profile
// has folded though they are not marked yet. Of what was published lately, or by
// a program that does not say when, a copy is likely to be on its way.
func (r *rebuilder) history(user int32, old *profile.Profile) *history {
	h := &history{lacking: map[profile.AppliedID]bool{}}
	folded := map[profile.AppliedID]bool{}
	if old != nil {
		for _, id := range old.Applied.IDs {
			folded[id], h.lacking[id] = true, true
		}
	}
	horizon := engine.Now() - engine.Millis(r.Config.Processor.IDs.Retention.Milliseconds())
	h.all = func(yield func(processor.HistoryEvent, error) bool) {
		for row, err := range r.db.History(r.Ctx, outbox.Filter{UserID: user}, outbox.Position{}) {
			h.rows++
			if engine.KindOf(err) == engine.Permanent {
				h.damaged++
				r.Log.Warn("row of the history left out", slog.Int64("row", row.ID), slog.Any("error", err),
					slog.String("hint", "correct the row where the event is to count"))
				continue
			}
			if err == nil && !row.Sent && !folded[row.Event.Digest.ID()] {
				h.unsent++
				continue
			}
			past := processor.HistoryEvent{Event: row.Event, InFlight: !row.Sent || row.SentAt == 0 && row.StoredAt >= horizon || row.SentAt >= horizon}
			delete(h.lacking, row.Event.Digest.ID())
			if !yield(past, err) || err != nil {
				return
			}
		}
	}
	return h
}

// empty says why no profile was made of the history.
func (h *history) empty(user int32, next processor.Rebuilt) error {
	switch h.rows {
	case 0:
		return fmt.Errorf("no event of user %d is in the outbox (a prune may have deleted it)", user)
	case h.unsent:
		return fmt.Errorf("%s of user %d in the outbox: none is published yet; repeat the command once the relay has published them",
			cli.Count(h.rows, "event"), user)
	}
	return fmt.Errorf("user %d has %s in the outbox, and no event that a profile can be made from: %d wait to be published, "+
		"%d have an unknown product, %d an unusable vector, %d cannot be read",
		user, cli.Count(h.rows, "row"), h.unsent, next.Missing, next.Dead, h.damaged)
}
