package main

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"keyfold/engine/profile/processor"
	"keyfold/internal/cli"
	"keyfold/service/profile/users"

	"keyfold/shard"
	"keyfold/source/inbox"
)

// rebuildCmd folds events whose products came after them.
type rebuildCmd struct {
	Products string `name:"products" placeholder:"FILE" help:"NDJSON products to import first; those without a vector are embedded offline."`
}

// Help is the long text.
func (c *rebuildCmd) Help() string {
	return `An event whose product is unknown is skipped, but stored. Once the product is known, this command makes the
profiles of the skipped events' users anew from all stored events of these users. It may be stopped and run
again. No keyfold-lite may be running on the folder.

Example:
  keyfold-lite rebuild --products shop.ndjson`
}

// rebuilt is what a rebuild did.
type rebuilt struct {
	Products int   `json:"products_imported"`
	Folded   int64 `json:"folded"`        // events that had been skipped
	Users    int   `json:"profiles"`      // made anew
	Missing  int64 `json:"still_skipped"` // events whose product is still unknown, or whose text is gone
}

// Run imports the products, settles what an earlier process left, and makes the
// profiles anew.
func (c *rebuildCmd) Run(a *app) error {
	file, err := openFile(a) // a mistyped folder is not created
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	n, err := openRuntime(a)
	if err != nil {
		return err
	}
	r := &rebuilder{runtime: n}
	err = errors.Join(r.run(c.Products), n.close())
	if err != nil && a.ctx.Err() != nil {
		return errors.New("interrupted: run the same command again to go on")
	}
	if err != nil {
		return err
	}
	return errors.Join(a.Emit(r.done, r.done.print), errors.Join(r.refused...))
}

// errRefused says that a profile cannot be made anew from what is stored.
var errRefused = errors.New("the profile stays as it is")

func (d rebuilt) print(w *cli.Text) {
	if d.Products > 0 {
		w.Line("%s imported", cli.Count(int64(d.Products), "product"))
	}
	if d.Folded == 0 {
		w.Line("no skipped event has a product that is known now: every profile stays as it is")
	} else {
		w.Line("%s folded after all; %s made anew", cli.Count(d.Folded, "skipped event"), cli.Count(int64(d.Users), "profile"))
	}
	if d.Missing > 0 {
		w.Line("%s left out: the product is still unknown, or history prune deleted the event's text", cli.Count(d.Missing, "event"))
	}
}

// rebuilder is one rebuild.
type rebuilder struct {
	*runtime
	taste   *processor.Engine
	done    rebuilt
	refused []error // by user
}

func (r *rebuilder) run(products string) (err error) {
	if products != "" {
		imported, err := importFile(r.app, r.file, products, importOptions{embed: true})
		if err != nil {
			return err
		}
		r.done.Products = imported.Stored
	}
	// A pending event may be in its profile without its mark: the recovery looks.
	job := &runCmd{Exit: true}
	if err := job.intake(r.runtime); err != nil {
		return err
	}
	interrupted, err := job.replay(r.runtime, &input{})
	if err == nil && !interrupted {
		err = errors.Join(r.start(shard.WallClock), job.fault(r.runtime, r.idle()))
	}
	if err != nil || r.ctx.Err() != nil {
		return errors.Join(err, r.ctx.Err())
	}
	if r.taste, err = processor.New(r.config.Processor, r.ports); err != nil {
		return err
	}
	missing, err := inbox.ProductMissing(r.ctx, r.file)
	if err != nil {
		return err
	}
	bar := r.Progress("rebuilding", int64(len(missing)), nil)
	defer bar.Done()
	for i, user := range slices.Sorted(maps.Keys(missing)) {
		err := r.user(user)
		if err != nil {
			err = fmt.Errorf("user %d: %w", user, err)
		}
		if err != nil && !errors.Is(err, errRefused) {
			return err
		}
		if err != nil {
			r.refused = append(r.refused, err)
		}
		bar.At(i + 1)
	}
	return nil
}

// user makes a user's profile anew, if a skipped event can be folded now. The
// profile is written before the events are marked: a process that is killed
// between the two does it again, with the same result.
func (r *rebuilder) user(user int32) error {
	events, err := lastEvents(r.ctx, r.app, r.file.Reader, user, math.MaxInt32)
	if err != nil {
		return err
	}
	slices.Reverse(events)
	skipped, err := r.foldable(events)
	if err != nil || len(skipped) == 0 {
		return err
	}
	stored, err := r.file.Load(r.ctx, []int32{user})
	if err != nil {
		return err
	}
	old := stored[0]
	next, err := r.taste.Rebuild(r.ctx, user, old, history(events))
	if errors.Is(err, processor.ErrErased) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case next.Dead > 0: // their marks would say that they are folded
		return fmt.Errorf("%w: the vectors of %s cannot be used; import these products again", errRefused, cli.Count(int64(next.Dead), "event"))
	case old != nil && next.Profile.EventCount < old.EventCount:
		return fmt.Errorf("%w: it counts %d events, and %d are stored", errRefused, old.EventCount, next.Profile.EventCount)
	}
	if err := r.taste.Replace(r.ctx, next.Profile); err != nil {
		return err
	}
	if err := inbox.MarkFolded(r.ctx, writer{r.file}, user, skipped); err != nil {
		return err
	}
	r.done.Users++
	r.done.Folded += int64(len(skipped))
	return nil
}

// foldable returns the ids of the skipped events whose products are known, and
// counts the others.
func (r *rebuilder) foldable(events []users.Event) (skipped []string, err error) {
	var wanted []int32
	for i := range events {
		if events[i].State == inbox.StateProductMissing.String() {
			wanted = append(wanted, events[i].ProductID)
		}
	}
	slices.Sort(wanted)
	products, err := r.file.Products(r.ctx, slices.Compact(wanted))
	if err != nil {
		return nil, err
	}
	known := map[int32]bool{}
	for i := range products {
		known[products[i].ID] = true
	}
	for i := range events {
		switch e := &events[i]; {
		case e.State != inbox.StateProductMissing.String():
		case known[e.ProductID]:
			skipped = append(skipped, e.MessageID)
		default:
			r.done.Missing++
		}
	}
	return skipped, nil
}

// history yields the events that are or were to be in the profile.
func history(events []users.Event) iter.Seq2[processor.HistoryEvent, error] {
	states := []string{inbox.StateFolded.String(), inbox.StateDuplicate.String(), inbox.StateProductMissing.String()}
	return func(yield func(processor.HistoryEvent, error) bool) {
		for i := range events {
			e := &events[i]
			if !slices.Contains(states, e.State) {
				continue
			}
			if e.ProductID == 0 && e.Phrase == "" {
				if e.State != inbox.StateProductMissing.String() {
					yield(processor.HistoryEvent{}, fmt.Errorf("%w: the text of event %s was deleted by history prune", errRefused, e.MessageID))
					return
				}
				continue
			}
			if !yield(processor.HistoryEvent{Event: e.Event}, nil) {
				return
			}
		}
	}
}
