package notify

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
)

// Merge makes two ids those of one person: the alias stands for the other id from then on.
// What both have is that person's. A ledger writes it whole or not at all.
type Merge struct {
	Alias, Into string
	At          engine.Millis
	// Versions of both that the values below were made from; 0: nothing is stored.
	AliasVersion, IntoVersion int64
	State                     *State      // of both; nil: neither has decisions
	Preferences               Preferences // of both
}

// OfAlias returns the state of an id that stands for the user since the merge.
func (m *Merge) OfAlias() *State {
	s := &State{MergedInto: m.Into}
	if m.State != nil {
		s.DecidedAt = m.State.DecidedAt
	}
	return s
}

// Alias is an id that stands for another one.
type Alias struct {
	ID       string        `json:"alias"`
	MergedAt engine.Millis `json:"-"`
}

// MergeStates returns the state of one person who had two: the fold over the records of both
// in the order of decided_at, of the same instant those of into first. Each list is in the order of
// the user's records. Those from before since are not known; what the states say of that time is kept.
func MergeStates(alias, into *State, ofAlias, ofInto []Record, since engine.Millis) *State {
	s := into.before(since)
	s.add(alias.before(since))
	records := Interleave(ofAlias, ofInto, func(r *Record) engine.Millis { return r.DecidedAt })
	s.LastDigest = digestBefore(records, into.LastDigest, alias.LastDigest)
	for _, r := range records {
		s.Fold(r)
	}
	s.prune(0) // no fold has where no record is known
	s.DecidedAt = max(s.DecidedAt, alias.DecidedAt, into.DecidedAt)
	return s
}

// digestBefore returns the first of some digests that was counted before the records: one of
// theirs is counted by them.
func digestBefore(records []*Record, digests ...uuid.UUID) uuid.UUID {
	for _, id := range digests {
		if id != uuid.Nil && !slices.ContainsFunc(records, func(r *Record) bool { return r.DigestID == id }) {
			return id
		}
	}
	return uuid.Nil
}

// Interleave returns the records of an alias and of its user in the order that they have as
// those of one person.
func Interleave[T any](ofAlias, ofInto []T, decidedAt func(*T) engine.Millis) []*T {
	all := make([]*T, 0, len(ofAlias)+len(ofInto))
	for i := range ofInto {
		all = append(all, &ofInto[i])
	}
	for i := range ofAlias {
		all = append(all, &ofAlias[i])
	}
	slices.SortStableFunc(all, func(a, b *T) int { return cmp.Compare(decidedAt(a), decidedAt(b)) })
	return all
}

// before returns what a state has from before an instant.
func (s *State) before(at engine.Millis) *State {
	b := s.Clone()
	later := func(t engine.Millis) bool { return t >= at }
	b.Sends = slices.DeleteFunc(b.Sends, later)
	b.Marks = slices.DeleteFunc(b.Marks, func(m Mark) bool { return later(m.At) })
	b.Reserved = slices.DeleteFunc(b.Reserved, func(r Reservation) bool { return later(r.Made) })
	b.Sent = slices.DeleteFunc(b.Sent, func(one Sent) bool { return later(one.At) })
	for t := range b.LastSend {
		if later(b.LastSend[t]) {
			b.LastSend[t] = 0
		}
	}
	return b
}

// add adds what another state has.
func (s *State) add(o *State) {
	for _, at := range o.Sends {
		s.Sends = insertInstant(s.Sends, at)
	}
	s.Marks = append(s.Marks, o.Marks...)
	slices.SortStableFunc(s.Marks, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
	for i := range o.Reserved {
		s.insert(o.Reserved[i])
	}
	s.Sent = append(s.Sent, o.Sent...)
	slices.SortStableFunc(s.Sent, func(a, b Sent) int { return cmp.Compare(a.At, b.At) })
	for t := range s.LastSend {
		s.LastSend[t] = max(s.LastSend[t], o.LastSend[t])
	}
}

// Join returns the preferences of one person who had these and, under an id that is an alias
// now, others. These hold. What the others keep from the user is kept from the user too: a type
// that is muted, a topic that is off, a pause, a cap. What these leave open is taken from the others.
func (p *Preferences) Join(o *Preferences) Preferences {
	j := *p
	if j.Zone == nil {
		j.Zone = o.Zone
	}
	if len(j.Quiet) == 0 {
		j.Quiet = o.Quiet
	}
	if len(j.Digests) == 0 {
		j.Digests = o.Digests
	}
	if j.Attributes.IsZero() {
		j.Attributes = o.Attributes
	}
	j.Muted = slices.Clone(j.Muted)
	for _, t := range o.Muted {
		if !slices.Contains(j.Muted, t) {
			j.Muted = append(j.Muted, t)
		}
	}
	j.Channels = commonChannels(j.Channels, o.Channels)
	for i := range j.Caps {
		if j.Caps[i] == 0 || o.Caps[i] != 0 && o.Caps[i] < j.Caps[i] {
			j.Caps[i] = o.Caps[i]
		}
	}
	j.Topics = joinTopics(p.Topics, o.Topics)
	j.Paused = j.Paused || o.Paused
	j.MutedUntil, j.SnoozedUntil = max(j.MutedUntil, o.MutedUntil), max(j.SnoozedUntil, o.SnoozedUntil)
	return j
}

// commonChannels returns the channels that both allow. Where none is, those of own stay: an
// empty list would allow all.
func commonChannels(own, others []Channel) []Channel {
	if len(own) == 0 {
		return others
	}
	var common []Channel
	for _, c := range own {
		if len(others) == 0 || slices.Contains(others, c) {
			common = append(common, c)
		}
	}
	if len(common) == 0 {
		return own
	}
	return common
}

// stricter orders the choices of a channel: what is off stays off.
var stricter = [choiceCount]int{ChoiceOn: 0, ChoiceDigest: 1, ChoiceOff: 2}

func joinTopics(own, others map[string]TopicPreference) map[string]TopicPreference {
	if len(others) == 0 {
		return own
	}
	joined := make(map[string]TopicPreference, len(own)+len(others))
	for name, t := range own {
		joined[name] = t
	}
	for name, o := range others {
		t := joined[name]
		for c := range t.Channels {
			if stricter[o.Channels[c]] > stricter[t.Channels[c]] {
				t.Channels[c] = o.Channels[c]
			}
		}
		t.MutedUntil, t.SnoozedUntil = max(t.MutedUntil, o.MutedUntil), max(t.SnoozedUntil, o.SnoozedUntil)
		joined[name] = t
	}
	return joined
}

// Join returns the responses of one person who had both; nil: none are known.
func (r *Responses) Join(o *Responses) *Responses {
	if r == nil || o == nil {
		if r == nil {
			return o
		}
		return r
	}
	at := max(r.At, o.At)
	j, other := r.decayed(at), o.decayed(at)
	for t := range j.Types {
		j.Types[t].Delivered += other.Types[t].Delivered
		j.Types[t].Opened += other.Types[t].Opened
	}
	for h := range j.Hours {
		j.Hours[h] += other.Hours[h]
	}
	return j
}
