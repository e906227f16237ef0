package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/proof/notifyoracle"
)

// addPeople draws other ids, each with preferences of its own, which can be merged.
func (h *history) addPeople() {
	g, first := h.rng, h.person
	if !h.wide && g.chance(2) || h.wide && h.flooded {
		return
	}
	for i := range 1 + g.IntN(3) {
		h.person = h.newPerson(fmt.Sprint("u", i+2))
		h.people = append(h.people, h.person)
		h.change()
	}
	h.person = first
}

// meet draws whose turn it is, and the id that comes: that person's or an alias. Now and then it
// merges two of them before.
func (h *history) meet() (as string, err error) {
	g := h.rng
	every := 5
	if h.wide {
		every = 250
	}
	if g.chance(every) {
		if err := h.mergeSome(); err != nil {
			return "", err
		}
	}
	p := pick(g, h.people)
	h.person = p.stands()
	return p.id, nil
}

// stands returns who has an id.
func (p *person) stands() *person {
	for p.into != nil {
		p = p.into
	}
	return p
}

// mergeSome draws who is merged with whom: with an alias, as with the person whose it is, and
// now and then with an id of which nothing is known.
func (h *history) mergeSome() error {
	g := h.rng
	if g.chance(8) {
		h.people = append(h.people, h.newPerson(fmt.Sprint("u", len(h.people)+1)))
	}
	alias, into := pick(g, h.people), pick(g, h.people).stands()
	if alias.into != nil || alias == into || alias.user.Erased || into.user.Erased {
		return nil // the ledger refuses it
	}
	return h.merge(alias, into)
}

// merge merges two people on both sides.
func (h *history) merge(alias, into *person) (err error) {
	h.Seen[merged]++
	kept := h.keptFrom(alias, into)
	if h.Trace != nil {
		fmt.Fprintf(h.Trace, "%4d %d %s is merged into %s, records are kept from %d on\n", h.steps, h.now, alias.id, into.id, kept)
	}
	into.user.Merge(alias.user)
	prefs := into.prefs.Join(&alias.prefs)
	if differences := notifyoracle.ComparePreferences(&into.user.Preferences, &prefs); len(differences) > 0 {
		return fmt.Errorf("%s is merged into %s:\n  %s", alias.id, into.id, strings.Join(differences, "\n  "))
	}
	if len(alias.state.Reserved)+len(into.state.Reserved) > notify.MaxSends {
		h.Seen[slotsEnded]++
	}
	since := max(kept, max(alias.state.DecidedAt, into.state.DecidedAt)-notify.MaxHorizon, 0)
	h.buffer = notify.MergeStates(alias.state, into.state, recordsFrom(alias.records, since), recordsFrom(into.records, since), since).Append(h.buffer[:0])
	state, err := notify.ReadState(h.buffer)
	if err != nil {
		return err
	}
	for _, d := range alias.waiting {
		into.waiting = append(into.waiting, d.of(into.id))
	}
	if h.run != nil {
		h.run.Merges = append(h.run.Merges, notifyoracle.Merge{
			Alias: alias.id, Into: into.id, AliasVersion: int64(len(h.run.Records)), IntoVersion: int64(len(h.run.Records)),
		})
	}
	into.prefs, into.state, into.records = prefs, state, interleaved(alias.records, into.records)
	alias.into, alias.waiting, alias.records, alias.state = into, nil, nil, &notify.State{}
	h.person = into
	h.forgetLastDigest(since)
	if err := h.compareState(); err != nil {
		return fmt.Errorf("%s is merged into %s, records are kept from %d on:\n  %w", alias.id, into.id, kept, err)
	}
	return h.compareFold(since)
}

// keptFrom draws from when on records are kept, 0 for all. The newest of both are, and of one
// horizon: a record that is not known may have dropped more than those that are, and so may have
// one that filled the slots. Of a run all are kept.
func (h *history) keptFrom(alias, into *person) engine.Millis {
	if !h.rng.chance(3) || h.wide || h.run != nil || h.sets[0].theirs.Policy.Horizon() != h.sets[1].theirs.Policy.Horizon() {
		return 0
	}
	return max(0, min(alias.state.DecidedAt, into.state.DecidedAt)-h.rng.span(3*day))
}

// forgetLastDigest takes the last digest of the merged state where no record tells of it any more:
// which of two that were is not known, and no item of theirs comes.
func (h *history) forgetLastDigest(since engine.Millis) {
	for _, d := range slices.Backward(h.user.Past) {
		if d.DigestID != uuid.Nil {
			if d.DecidedAt < since {
				h.user.State().LastDigest = h.state.LastDigest
			}
			return
		}
	}
}

// What merges must meet: two ids that are merged, and have more slots than one user can; a
// digest with items of both.
var (
	merged     = Case{notify.Later, "merged"}
	slotsEnded = Case{notify.Later, "slots ended by a merge"}
	ofTwo      = Case{notify.Now, "a digest of two ids"}
)

// compareFold compares the state of a person with the fold over the records that are known.
func (h *history) compareFold(since engine.Millis) error {
	var fold notify.State
	for _, r := range recordsFrom(h.records, since) {
		fold.Fold(&r)
	}
	if differences := h.state.Differences(&fold, since); len(differences) > 0 {
		return fmt.Errorf("the state is not the fold of the records:\n  %s", strings.Join(differences, "\n  "))
	}
	return nil
}

// of returns what waits as another person's.
func (d waiting) of(person string) waiting {
	theirs, ours := *d.Event, *d.event.Notification
	theirs.Person, ours.Person = person, person
	d.Event, d.event.Notification = &theirs, &ours
	return d
}

func recordsFrom(all []notify.Record, since engine.Millis) []notify.Record {
	return slices.DeleteFunc(slices.Clone(all), func(r notify.Record) bool { return r.DecidedAt < since })
}

// interleaved are the records of two as those of one person.
func interleaved(alias, into []notify.Record) (all []notify.Record) {
	for _, r := range notify.Interleave(alias, into, func(r *notify.Record) engine.Millis { return r.DecidedAt }) {
		all = append(all, *r)
	}
	return all
}
