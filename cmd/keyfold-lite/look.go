package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"keyfold/internal/cli"
	"keyfold/internal/version"
	"keyfold/service/status"
	"keyfold/source/inbox"
)

// look is what the overview shows: this process, its file, and what waits in it. The figures have
// the names that workers give theirs.
func (n *runtime) look(ctx context.Context, _ map[string]map[string]float64) (*status.Report, error) {
	r := &status.Report{At: time.Now()}
	file := status.Server{Server: "SQLite", Address: n.data, Used: true}
	s := n.counts()
	pending, err := n.inbox.Pending(ctx)
	if err != nil {
		file.Error = err.Error()
		r.Problems = append(r.Problems, status.Problem{About: "SQLite", Text: err.Error(), Cure: "check that the folder of --data can be written, and that its disk has room"})
	}
	r.Servers = []status.Server{file}
	r.Queues = []status.Queue{{Name: "events", Of: status.OfProfiles, Holds: status.Events, Ready: pending + int(s.Pending)}}
	one := status.Process{
		Address: "this process", Roles: []string{"keyfold-lite"}, Version: version.Read().Version, Ready: true,
		Figures: map[string]float64{
			"keyfold_profile_writes_total": float64(s.Writes), `keyfold_events_total{outcome="folded"}`: float64(s.Folded),
			"keyfold_rabbitmq_delivered_total": float64(s.Folded + s.Duplicate + s.Skipped + s.Dead),
		},
	}
	if n.intake != nil {
		if err := n.intake.ready(ctx); err != nil {
			one.Ready, one.Reason = false, err.Error()
		}
	}
	r.Processes = []status.Process{one}
	dead, err := inbox.DeadCounts(ctx, n.file)
	if err != nil {
		r.Notes = append(r.Notes, err.Error())
	}
	n.tellDead(r, dead)
	return r, nil
}

// tellDead has the report say that events cannot be folded.
func (n *runtime) tellDead(r *status.Report, dead map[string]int64) {
	if len(dead) == 0 {
		return
	}
	var all int64
	var reasons []string
	for _, reason := range slices.SortedFunc(maps.Keys(dead), func(x, y string) int { return cmp.Or(cmp.Compare(dead[y], dead[x]), cmp.Compare(x, y)) }) {
		all += dead[reason]
		reasons = append(reasons, fmt.Sprintf("%s (%s)", reason, cli.Number(dead[reason])))
	}
	r.Queues = append(r.Queues, status.Queue{Name: "dead", Of: status.OfProfiles, Holds: status.DeadLetters, Ready: int(all)})
	r.Problems = append(r.Problems, status.Problem{
		About: "dead events", Text: fmt.Sprintf("%s cannot be folded: %s", cli.Count(all, "event"), strings.Join(reasons, ", ")),
		Cure: fmt.Sprintf("`%s failed list` shows where each was read and what is wrong with it; send it again as it should be", n.command()),
	})
}
