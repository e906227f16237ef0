package notifyoracle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Run is what is left of a run: all that was accepted, recorded, dispatched and stored.
type Run struct {
	Events  []*notify.Notification // accepted; each with its Body and its Print
	Records []notify.Record
	Sent    []Sent
	States  map[string]*notify.State // as stored, by user; nil: not compared
	Sets    map[string]*Set          // by version; a record of another set is a violation
	Merges  []Merge                  // in their order
	// End is the clock at the end, 0 while the run goes on: then events may wait and
	// dispatches may be on their way.
	End engine.Millis
}

// Merge has made an id an alias of another one. The records of a run have the user_id and the
// seq that they were written with; those up to these versions were written before.
type Merge struct {
	Alias, Into               string
	AliasVersion, IntoVersion int64
}

// Sent is one hand-over of a dispatch to the senders.
type Sent struct {
	ID     uuid.UUID
	Events []uuid.UUID
	At     engine.Millis
}

// Violation is a law that a run has broken.
type Violation struct {
	Law   string // a few words, the same for every violation of it
	User  string
	Event uuid.UUID // zero: of no one event
	Text  string
}

// String says it.
func (v Violation) String() string {
	return fmt.Sprintf("%s: user %s, event %v: %s", v.Law, v.User, v.Event, v.Text)
}

// The laws of [Check] and [Replay].
const (
	LawKnown    = "a record is of an accepted event and a known set"
	LawCaps     = "no NOW over a cap"
	LawLimits   = "no NOW over a limit"
	LawQuiet    = "no NOW in quiet hours"
	LawExpiry   = "no dispatch after expiry"
	LawOneNow   = "one NOW per event at most"
	LawTurns    = "turns 0 to 2 without a gap"
	LawEnds     = "every accepted event ends"
	LawDispatch = "each NOW is dispatched under one id"
	LawChannels = "each channel of an event at most once"
	LawWithdraw = "what is cancelled or replaced is not dispatched"
	LawDigest   = "a digest's message is not too large"
	LawShown    = "a digest's message counts all of its items"
	LawState    = "the state is a fold over the records"
	LawOracle   = "the records are a run of the oracle"
)

// checker holds a run while its laws are checked.
type checker struct {
	*Run
	oracle *Oracle
	events map[uuid.UUID]*notify.Notification
	users  map[string][]*notify.Record // by Seq
	turns  map[uuid.UUID][]*notify.Record
	made   map[uuid.UUID]*notify.FollowUp // of follow-ups
	faults []Violation
}

func newChecker(run *Run) *checker {
	c := &checker{
		Run: run, oracle: New(), events: map[uuid.UUID]*notify.Notification{},
		users: map[string][]*notify.Record{}, turns: map[uuid.UUID][]*notify.Record{}, made: map[uuid.UUID]*notify.FollowUp{},
	}
	for _, e := range run.Events {
		c.events[e.ID] = e
	}
	c.addChildren()
	for i := range run.Records {
		r := &run.Records[i]
		if c.cancelledUnknown(r, c.events[r.EventID]) {
			c.events[r.EventID] = &notify.Notification{ID: r.EventID, UserID: r.UserID, Type: r.Type, Source: r.Source, Print: r.Print, Body: []byte("{}")}
		}
		switch e := c.events[r.EventID]; {
		case e == nil || !c.standsFor(e.UserID, r.UserID) || e.Type != r.Type:
			c.violated(LawKnown, r.UserID, r.EventID, "no such event was accepted of this user")
			continue
		case run.Sets[r.RuleVersion] == nil:
			c.violated(LawKnown, r.UserID, r.EventID, "the set %q is unknown", r.RuleVersion)
			continue
		}
		c.users[r.UserID] = append(c.users[r.UserID], r)
	}
	for _, user := range c.ids() {
		records := c.users[user]
		slices.SortStableFunc(records, func(a, b *notify.Record) int { return cmp.Compare(a.Seq, b.Seq) })
		for i, r := range records {
			c.turns[r.EventID] = append(c.turns[r.EventID], r)
			if i > 0 && (r.Seq == records[i-1].Seq || r.DecidedAt < records[i-1].DecidedAt) {
				c.violated(LawState, user, r.EventID, "seq %d twice, or its decided_at runs backwards", r.Seq)
			}
		}
	}
	return c
}

// addChildren takes in the follow-ups of which records tell, as accepted events.
func (c *checker) addChildren() {
	all := slices.Clone(c.Events)
	for added := true; added; {
		added = false
		for i := range c.Records {
			r := &c.Records[i]
			for j := range r.Facts.FollowUps {
				f := &r.Facts.FollowUps[j]
				parent := c.events[r.EventID]
				if parent == nil || c.events[f.EventID] != nil {
					continue
				}
				child := Child(parent, f)
				if due, err := parent.FollowUp(f); err == nil {
					child.Body = due.Event.Body // its bytes count
				}
				c.events[f.EventID], c.made[f.EventID], added = child, f, true
				all = append(all, child)
			}
		}
	}
	run := *c.Run
	run.Events = all
	c.Run = &run
}

// cancelledUnknown reports whether a record cancels an event before it came: its texts are
// not those of an event that came later. Of an erased user it says that.
func (c *checker) cancelledUnknown(r *notify.Record, e *notify.Notification) bool {
	cancelled := slices.Equal(r.Reasons, []string{notify.ReasonCancelled}) ||
		r.Source == "keyfold" && slices.Equal(r.Reasons, []string{notify.ReasonUserErased})
	return r.Turn == 0 && cancelled &&
		(e == nil || c.person(e.UserID) == c.person(r.UserID) && (e.Type != r.Type || e.Source != r.Source))
}

func (c *checker) violated(law, user string, event uuid.UUID, format string, args ...any) {
	c.faults = append(c.faults, Violation{law, user, event, fmt.Sprintf(format, args...)})
}

func (c *checker) sorted() []Violation {
	slices.SortFunc(c.faults, func(a, b Violation) int { return cmp.Compare(a.String(), b.String()) })
	return c.faults
}

// Check returns how records, dispatches and stored states break the laws that hold
// whatever has made them.
func Check(run *Run) []Violation {
	c := newChecker(run)
	for _, user := range c.ids() {
		if !c.isAlias(user) {
			c.checkSends(user)
			c.checkState(user)
		}
		c.checkDigests(user, c.users[user])
	}
	for _, e := range c.Events {
		c.checkTurns(e)
		c.checkChannels(e)
	}
	c.checkDispatches()
	return c.sorted()
}

// checkSends looks at each NOW that is held by caps, limits and quiet hours: every window
// that ends with it, and the clock that the user saw.
func (c *checker) checkSends(user string) {
	c.walk(user, func(u *User, r *notify.Record) bool {
		d := DecisionOf(r)
		d.Send = c.sendOf(r)
		if r.Outcome == notify.Now {
			c.checkSend(r.UserID, r, u.State(), &d)
			c.checkQuiet(r.UserID, r)
		}
		u.Past = append(u.Past, d)
		return true
	})
}

// sendOf returns what limits ask of a record, by its event.
func (c *checker) sendOf(r *notify.Record) Send {
	e, err := ReadEvent(c.events[r.EventID])
	if err != nil {
		c.violated(LawKnown, r.UserID, r.EventID, "%v", err)
		e.Notification = c.events[r.EventID]
	}
	return sendOf(c.Sets[r.RuleVersion], e, r.DecidedAt, sendOfRecord(r).Channels)
}

func (c *checker) checkSend(user string, r *notify.Record, before *State, d *Decision) {
	set := c.Sets[r.RuleVersion]
	if r.DigestID != uuid.Nil || slices.Contains(r.Reasons, notify.ReasonDeferLimit) || set.rule(r.RuleID).bypasses("caps") {
		return
	}
	for i, w := range notify.Windows {
		if n := before.count(w, r.DecidedAt); n >= r.Facts.Caps[i] && set.Policy.Types[r.Type].Capped && !d.Send.Follow {
			c.violated(LawCaps, user, r.EventID, "%d sends before it in %d ms, the cap is %d", n, w, r.Facts.Caps[i])
		}
	}
	for _, b := range boundsOf(&set.Policy, &d.Send, before.Sent, nil) {
		if n := within(b.sends, b.Within, r.DecidedAt); n >= b.Most && counts(b.Limit, &d.Send, &d.Send) {
			c.violated(LawLimits, user, r.EventID, "%d sends before it in %d ms, %s has %d", n, b.Within, b.Name, b.Most)
		}
	}
}

// checkQuiet looks at the channels of a NOW, which quiet hours and snooze must not hold.
func (c *checker) checkQuiet(user string, r *notify.Record) {
	set, prefs := c.Sets[r.RuleVersion], &r.Facts.Preferences
	if !set.Policy.Types[r.Type].Quiet || r.DigestID == uuid.Nil && set.rule(r.RuleID).bypasses("quiet_hours") {
		return
	}
	w := wishOf(&set.Policy, prefs, r.Type, r.Source)
	snoozed := w.bound && r.DecidedAt < max(prefs.SnoozedUntil, w.choice.SnoozedUntil)
	quiet := c.oracle.zone(zoneName(prefs, set)).quiet(prefs.Quiet, r.DecidedAt)
	for _, channel := range r.Channels {
		if snoozed || quiet && !set.Policy.Awake.Has(channel) {
			c.violated(LawQuiet, user, r.EventID, "decided at %v on %v", r.DecidedAt.Time(), channel)
		}
	}
}

func zoneName(p *notify.Preferences, set *Set) string {
	if p.Zone == nil {
		return set.Zone
	}
	return p.Zone.Name()
}

// rule returns the rule of an id, nil where there is none.
func (s *Set) rule(id uuid.UUID) *Rule {
	for i := range s.Rules {
		if s.Rules[i].ID == id {
			return &s.Rules[i]
		}
	}
	return nil
}

func (c *checker) checkState(user string) {
	stored, met := c.States[user]
	if c.States == nil || met && stored.Erased {
		return
	}
	u := c.walk(user, func(u *User, r *notify.Record) bool {
		u.Past = append(u.Past, DecisionOf(r))
		return true
	})
	switch {
	case len(u.Past) == 0:
		return // of an alias of which nothing was known
	case !met || stored == nil:
		c.violated(LawState, user, uuid.Nil, "%d records and no state", len(u.Past))
		return
	}
	for _, difference := range u.CompareState(stored) {
		c.violated(LawState, user, uuid.Nil, "%s", difference)
	}
}

// checkTurns looks at the records of one event.
func (c *checker) checkTurns(e *notify.Notification) {
	turns := c.turns[e.ID]
	nows := 0
	for i, r := range turns {
		last := i == len(turns)-1
		switch {
		case r.Turn != i || r.Turn > notify.MaxTurn:
			c.violated(LawTurns, e.UserID, e.ID, "record %d is of turn %d", i, r.Turn)
		case !last && r.Outcome != notify.Later:
			c.violated(LawTurns, e.UserID, e.ID, "turn %d follows a %v", turns[i+1].Turn, r.Outcome)
		case !last && turns[i+1].DecidedAt < r.DeferUntil && !endedEarly(turns[i+1]):
			c.violated(LawTurns, e.UserID, e.ID, "turn %d came %d ms before its time", i+1, r.DeferUntil-turns[i+1].DecidedAt)
		case last && r.Outcome == notify.Later && c.End != 0 && r.Turn == notify.MaxTurn:
			c.violated(LawTurns, e.UserID, e.ID, "the last turn is a LATER")
		case last && r.Outcome == notify.Later && c.End != 0:
			c.violated(LawEnds, e.UserID, e.ID, "it waits after turn %d", r.Turn)
		}
		if r.Outcome == notify.Now {
			nows++
		}
	}
	if f := c.made[e.ID]; f != nil && len(turns) > 0 && turns[0].DecidedAt < f.At && !endedEarly(turns[0]) {
		c.violated(LawTurns, e.UserID, e.ID, "the follow-up came %d ms before its time", f.At-turns[0].DecidedAt)
	}
	if nows > 1 {
		c.violated(LawOneNow, e.UserID, e.ID, "%d", nows)
	}
	if len(turns) == 0 && c.End != 0 {
		c.violated(LawEnds, e.UserID, e.ID, "it has no record")
	}
}

// endedEarly reports whether a record may come before its time: a cancellation, which says
// something else of erased users.
func endedEarly(r *notify.Record) bool {
	return Withdrawn(r.Reasons) || slices.Equal(r.Reasons, []string{notify.ReasonUserErased})
}

// Replay decides each user's records again with the oracle, in the order of Seq, each with
// its recorded time, set, preferences and cosine, and returns where they differ.
func Replay(run *Run) []Violation {
	c := newChecker(run)
	for _, user := range c.ids() {
		before := map[uuid.UUID]*notify.Record{} // the newest record of each event
		c.walk(user, func(u *User, r *notify.Record) bool { return c.replay(u, before, r) })
	}
	return c.sorted()
}

// replay decides a record again, and reports whether it was decided so: what follows differs
// by one that was not.
func (c *checker) replay(u *User, before map[uuid.UUID]*notify.Record, r *notify.Record) bool {
	e, err := ReadEvent(c.events[r.EventID])
	if err != nil {
		c.violated(LawKnown, r.UserID, r.EventID, "%v", err)
		return false
	}
	u.Preferences = r.Facts.Preferences
	u.Erased = u.Erased || slices.Contains(r.Reasons, notify.ReasonUserErased)
	want := c.decideAgain(u, e, before[r.EventID], r)
	before[r.EventID] = r
	differences := Compare(&want, r)
	if len(differences) > 0 {
		c.violated(LawOracle, r.UserID, r.EventID, "seq %d: %v", r.Seq, differences)
	}
	return len(differences) == 0
}

// decideAgain decides an event whose last record is given, as a record says that it was.
func (c *checker) decideAgain(u *User, e Event, last, r *notify.Record) Decision {
	set, asked := c.Sets[r.RuleVersion], Turn{Score: r.Facts.Taste, Reported: r.Facts.Reported}
	if place := r.Facts.Takes; place != (notify.Place{}) {
		asked.Takes = &place
	}
	key, slot := "", engine.Millis(0) // of the digest that it waits for
	if last != nil {
		asked.Number, asked.Spent, key, slot = last.Turn+1, last.Spent, last.DigestKey, last.Slot
	} else if f := c.made[e.ID]; f != nil && f.Digest != "" {
		key, slot = f.Digest, f.At
	}
	switch {
	case Withdrawn(r.Reasons):
		return u.Withdraw(set, e, asked, r.Reasons[0], r.DuplicateOf, r.DecidedAt)
	case key == "":
		return u.Decide(set, e, asked, r.DecidedAt)
	}
	// Quiet hours may have moved the item to another slot since: then its id is another one,
	// of which no record tells.
	id := r.DigestID
	if id == uuid.Nil {
		id = notify.DigestID(r.UserID, key, slot, r.EventID)
	}
	return u.DigestItem(set, Item{e, asked.Number, asked.Spent, key, asked.Reported}, id, r.DecidedAt)
}
