package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// TastePercentiles are those that [Ledger.Tastes] reads.
var TastePercentiles = [...]int{1, 5, 25, 50, 75, 95, 99}

// Taste sums up the cosines of decisions' texts and profiles.
type Taste struct {
	Type        notify.EventType // 0: of all types
	Decisions   int64
	Known       int64     // with a cosine
	Used        int64     // of these, where the cosine took part in the score
	Percentiles []float64 // aligned with TastePercentiles; nil: no cosine is known
}

const readTastes = `SELECT coalesce(event_type::text, ''), count(*), count(ai_score), count(*) FILTER (WHERE ai_used),
		percentile_cont($2::float8[]) WITHIN GROUP (ORDER BY ai_score)
	FROM notify_decisions WHERE decided_at >= $1 GROUP BY ROLLUP (event_type) ORDER BY grouping(event_type), event_type::text`

// Tastes sums up the decisions since an instant, by the types' names; all types
// together come last. It reads each of these decisions.
func (l *Ledger) Tastes(ctx context.Context, since engine.Millis) ([]Taste, error) {
	fractions := make([]float64, len(TastePercentiles))
	for i, p := range TastePercentiles {
		fractions[i] = float64(p) / 100
	}
	return collect(ctx, l, "tastes", func(row pgx.CollectableRow) (t Taste, err error) {
		var kind string
		var values []*float64
		err = row.Scan(&kind, &t.Decisions, &t.Known, &t.Used, &values)
		if kind != "" {
			t.Type = notify.ParseEventType(kind)
		}
		for _, value := range values {
			if value != nil {
				t.Percentiles = append(t.Percentiles, *value)
			}
		}
		return t, err
	}, readTastes, since.Time(), fractions)
}

const readSkippedTastes = `SELECT why, count(*) FROM (
		SELECT facts -> 'taste' ->> 'skip' AS why FROM notify_decisions WHERE decided_at >= $1 AND ai_score IS NULL) d
	WHERE why IS NOT NULL GROUP BY why`

// SkippedTastes counts the decisions since an instant that lack a cosine, by the reason.
// It reads each of them.
func (l *Ledger) SkippedTastes(ctx context.Context, since engine.Millis) (map[string]int64, error) {
	type skipped struct {
		why string
		n   int64
	}
	rows, err := collect(ctx, l, "skipped tastes", func(row pgx.CollectableRow) (s skipped, err error) {
		err = row.Scan(&s.why, &s.n)
		return s, err
	}, readSkippedTastes, since.Time())
	counts := make(map[string]int64, len(rows))
	for _, s := range rows {
		counts[s.why] = s.n
	}
	return counts, err
}
