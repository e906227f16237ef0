package history

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"keyfold/engine/notify"
	"keyfold/proof/notifyoracle"
)

// newRun begins a run: the history as a store and the senders would have it.
func (h *history) newRun() *notifyoracle.Run {
	run := &notifyoracle.Run{Sets: map[string]*notifyoracle.Set{}, States: map[string]*notify.State{}}
	for _, s := range h.sets {
		run.Sets[s.ours.Version] = s.ours
	}
	return run
}

// record keeps a record as a store gives it back, and dispatches a NOW.
func (h *history) record(r *notify.Record) error {
	if r.Outcome == notify.Postponed {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var read notify.Record
	if err := json.Unmarshal(text, &read); err != nil {
		return fmt.Errorf("a record does not read: %w\n%s", err, text)
	}
	read.Seq = int64(len(h.run.Records) + 1)
	read.UserID = h.id
	h.run.Records = append(h.run.Records, read)
	if r.Outcome == notify.Now {
		id := r.EventID
		if r.DigestID != uuid.Nil {
			id = r.DigestID
		}
		h.run.Sent = append(h.run.Sent, notifyoracle.Sent{ID: id, Events: []uuid.UUID{r.EventID}, At: r.DecidedAt})
	}
	return nil
}

// checkRun checks the laws of the whole run, from its records alone.
func (h *history) checkRun() error {
	h.run.End = h.now + 1
	for _, p := range h.people {
		if p.into == nil && p.user.State().DecidedAt != 0 {
			h.run.States[p.id] = p.state
		}
	}
	violations := append(notifyoracle.Check(h.run), notifyoracle.Replay(h.run)...)
	if len(violations) == 0 {
		return nil
	}
	var all []string
	for _, v := range violations {
		all = append(all, v.String())
	}
	return fmt.Errorf("%d violations:\n  %s", len(all), strings.Join(all, "\n  "))
}
