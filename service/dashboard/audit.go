package dashboard

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"keyfold/engine/terse"
	"keyfold/internal/cli"
	"keyfold/source/httpapi"
)

const (
	auditPath    = "/audit"
	mostEntries  = 1000
	entriesShown = 200
	// heaviestAudit is how many bytes the entries may have on the page.
	heaviestAudit = 50 << 10
)

// entry is one line of what was done, or tried, by whom. It holds no body and no token.
type entry struct {
	At                    time.Time
	Who, From, Action, Of string
	Planned, Done         int64
	Result                string
}

// weight is about how many bytes an entry has on the page.
func (e entry) weight() int {
	return rowWeight([]string{"", e.Who, e.From, e.Action, "", "", ""}) + escaped(line(e.Of)) + escaped(text(e.Result)) + escaped(e.At.String())
}

// journal keeps the last entries, each of which is a line of the log too.
type journal struct {
	now func() time.Time
	log *slog.Logger

	refusals terse.Repeats // any site can cause them in any number

	mu  sync.Mutex
	all []entry
}

// refuse notes requests that nothing was done for, those alike once a minute.
func (j *journal) refuse(r *httpapi.Request, reason string) {
	address, path := r.Address(), cell(r.URL.Path)
	j.refusals.Add(reason, func(n int) {
		j.log.With("component", "audit").Warn("requests refused", slog.Int("count", n), slog.String("reason", reason), slog.String("remote", address),
			slog.String("path", path), slog.String("hint", "nothing was done; a site that a person has open in the same browser may have sent them"))
		j.keep(entry{Who: address, From: address, Action: "form", Of: path, Result: fmt.Sprintf("refused: %s, %s", reason, cli.Count(int64(n), "time"))})
	})
}

func (j *journal) add(e entry) {
	j.log.With("component", "audit").Info("a page has acted", slog.String("who", e.Who), slog.String("remote", e.From), slog.String("action", e.Action),
		slog.String("of", e.Of), slog.Int64("planned", e.Planned), slog.Int64("done", e.Done), slog.String("result", e.Result))
	j.keep(e)
}

func (j *journal) keep(e entry) {
	e.At = j.now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.all) == mostEntries {
		j.all = slices.Delete(j.all, 0, 1)
	}
	j.all = append(j.all, e)
}

// last returns the newest entries, the newest first, and how many there are.
func (j *journal) last(most int) (shown []entry, all int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	shown = slices.Clone(j.all[max(0, len(j.all)-most):])
	slices.Reverse(shown)
	return shown, len(j.all)
}

// auditView is the page of what was done.
type auditView struct {
	Entries []entry
	More    int
}

func (d *Dashboard) audits(r *httpapi.Request) *httpapi.Answer {
	shown, all := d.journal.last(entriesShown)
	left := heaviestAudit
	shown = shown[:fits(&left, shown, entry.weight)]
	return d.page(r, "audit", "Audit", d.seenNow(), auditView{shown, all - len(shown)})
}
