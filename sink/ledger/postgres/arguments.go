package postgres

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"keyfold/engine/notify"
	"keyfold/sink/ledger"
)

// arguments are those of notify_commit: arrays with one element per change, decision
// or postponed deferral.
type arguments struct {
	users    []string
	versions []int64
	turns    []int32
	states   [][]byte
	at       []time.Time

	of              []string
	newest          []bool
	effects         []int32
	decisions       []uuid.UUID
	events          []uuid.UUID
	owners          []*string
	seqs            []int64
	types, sources  []string
	prints          [][]byte
	outcomes        []string
	reasons         []string
	rules           []*uuid.UUID
	ruleVersions    []string
	numbers         []int32
	decidedAt       []time.Time
	until           []*time.Time
	spent, keys     []*string
	slots           []*time.Time
	digests         []*uuid.UUID
	duplicates      []*uuid.UUID
	channels        []*string
	scores          []*float64
	tasteUsed       []bool
	tastes          []*float64
	bodies, facts   []*string
	postponedOf     []string
	postponedEvents []uuid.UUID
	due             []time.Time
	followUpsOf     []string
	followUps       []uuid.UUID
	followUpsDue    []time.Time
	followUpsKey    []*string
	followUpsBody   []string
	marked          []uuid.UUID
}

// What a decision means for the deferral of its event.
const (
	effectNone, effectPut, effectDelete = 0, 1, 2
)

// noVersion is the version of a change that cannot be written: the call answers only
// which keys its events have.
const noVersion = -1

// commitTypes are the types of notify_commit's parameters, in their order, by their names in the
// server's catalog: _ is an array.
const commitTypes = `_text _int8 _int4 _bytea _timestamptz
	_text _bool _int4
	_uuid _uuid _text _int8 _text _text _bytea
	_text _text _uuid _text _int4 _timestamptz
	_timestamptz _text _text _timestamptz _uuid _uuid
	_text _float8 _bool _float8 _text _text
	_text _uuid _timestamptz
	_text _uuid _timestamptz _text _text
	_uuid`

var commitStatement = func() string {
	var b strings.Builder
	b.WriteString(`SELECT written, event_id, user_id, turn, decision_id, digest_id, outcome::text, dispatched, decided_at FROM notify_commit(`)
	for i := range strings.Fields(commitTypes) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("$" + strconv.Itoa(i+1))
	}
	return b.String() + ")"
}()

// parameters are what a statement is called with: values, and of each the type and the format.
type parameters struct {
	values  [][]byte
	types   []uint32
	formats []int16
}

// binary encodes the arguments. As texts, which is how pgx sends what is not prepared, states and
// fingerprints would be twice as long and quoted.
func (a *arguments) binary(known *pgtype.Map) (p parameters, err error) {
	list := a.list()
	for i, name := range strings.Fields(commitTypes) {
		kind, ok := known.TypeForName(name)
		if !ok {
			return p, fmt.Errorf("the type %s is unknown", name)
		}
		value, err := known.Encode(kind.OID, pgtype.BinaryFormatCode, list[i], nil)
		if err != nil {
			return p, err
		}
		p.values, p.types, p.formats = append(p.values, value), append(p.types, kind.OID), append(p.formats, pgtype.BinaryFormatCode)
	}
	return p, nil
}

func (a *arguments) list() []any {
	return []any{
		a.users, a.versions, a.turns, a.states, a.at,
		a.of, a.newest, a.effects,
		a.decisions, a.events, a.owners, a.seqs, a.types, a.sources, a.prints,
		a.outcomes, a.reasons, a.rules, a.ruleVersions, a.numbers, a.decidedAt,
		a.until, a.spent, a.keys, a.slots, a.digests, a.duplicates,
		a.channels, a.scores, a.tasteUsed, a.tastes, a.bodies, a.facts,
		a.postponedOf, a.postponedEvents, a.due,
		a.followUpsOf, a.followUps, a.followUpsDue, a.followUpsKey, a.followUpsBody,
		a.marked,
	}
}

// add appends a change.
func (a *arguments) add(c *notify.Change) error {
	name, state, at := ledger.Name(c), []byte{}, time.UnixMilli(0)
	erased := false
	if len(c.Decided) > 0 {
		state, at, erased = c.State.Append(nil), timeOf(c.State.DecidedAt), c.State.Erased
	}
	version := c.Version
	fault := ledger.Check(c, version, func(uuid.UUID) (none notify.Known) { return none })
	if fault != nil || name != c.User && version == 0 { // a commit makes no tombstone
		version = noVersion
	}
	a.users, a.versions = append(a.users, name), append(a.versions, version)
	a.turns = append(a.turns, int32(len(c.Decided))) //nolint:gosec // a flush is bounded
	a.states, a.at = append(a.states, state), append(a.at, at)
	effects, newest := effectsOf(c.Decided)
	for i := range c.Decided {
		if err := a.addTurn(name, &c.Decided[i], erased); err != nil {
			return err
		}
		a.effects, a.newest = append(a.effects, effects[i]), append(a.newest, newest[i])
	}
	for _, p := range c.Postponed {
		a.postponedOf, a.postponedEvents = append(a.postponedOf, name), append(a.postponedEvents, p.EventID)
		a.due = append(a.due, timeOf(p.DueAt))
	}
	for _, f := range c.FollowUps {
		a.followUpsOf, a.followUps = append(a.followUpsOf, name), append(a.followUps, f.Event.ID)
		a.followUpsDue, a.followUpsKey = append(a.followUpsDue, timeOf(f.DueAt)), append(a.followUpsKey, orNull(f.DigestKey))
		a.followUpsBody = append(a.followUpsBody, string(f.Event.Body))
	}
	return nil
}

// addTurn appends one decision of the user of that name. Of an erased user, what tells of it is NULL.
func (a *arguments) addTurn(name string, d *notify.Decided, erased bool) error {
	r := &d.Record
	var owner, key, body, facts *string
	var print []byte
	if !erased {
		text, err := json.Marshal(&r.Facts)
		if err != nil {
			return err
		}
		owner, key, print = &r.UserID, orNull(r.DigestKey), r.Print.Append(nil)
		body, facts = orNull(string(d.Event.Body)), orNull(string(text))
	}
	var score, taste *float64
	if r.Scored {
		score = &r.Score
	}
	if r.Facts.Taste.Known {
		taste = &r.Facts.Taste.Cosine
	}
	a.of, a.owners = append(a.of, name), append(a.owners, owner)
	a.decisions, a.events = append(a.decisions, r.DecisionID), append(a.events, r.EventID)
	a.seqs, a.types, a.sources = append(a.seqs, r.Seq), append(a.types, r.Type.String()), append(a.sources, r.Source)
	a.prints, a.outcomes = append(a.prints, print), append(a.outcomes, r.Outcome.String())
	a.reasons, a.rules = append(a.reasons, textArray(r.Reasons)), append(a.rules, orNull(r.RuleID))
	a.ruleVersions, a.numbers = append(a.ruleVersions, r.RuleVersion), append(a.numbers, int32(r.Turn)) //nolint:gosec // 0 to 2
	a.decidedAt, a.until = append(a.decidedAt, timeOf(r.DecidedAt)), append(a.until, timeOrNull(r.DeferUntil))
	a.spent, a.keys = append(a.spent, array(r.Spent)), append(a.keys, key)
	a.slots, a.digests = append(a.slots, timeOrNull(r.Slot)), append(a.digests, orNull(r.DigestID))
	a.duplicates, a.channels = append(a.duplicates, orNull(r.DuplicateOf)), append(a.channels, array(r.Channels))
	a.scores, a.tastes = append(a.scores, score), append(a.tastes, taste)
	a.tasteUsed = append(a.tasteUsed, r.Facts.TasteUsed && taste != nil)
	a.bodies, a.facts = append(a.bodies, body), append(a.facts, facts)
	return nil
}

// effectsOf returns, for each decision, what it means for the deferral of its event,
// and whether no decision of the event follows: a call writes each row once.
func effectsOf(decided []notify.Decided) (effects []int32, newest []bool) {
	effects, newest = make([]int32, len(decided)), make([]bool, len(decided))
	met, settled := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
	for i := len(decided) - 1; i >= 0; i-- {
		r := &decided[i].Record
		newest[i] = !met[r.EventID]
		met[r.EventID] = true
		if settled[r.EventID] {
			continue
		}
		switch {
		case r.Outcome == notify.Later:
			effects[i] = effectPut
		case r.Outcome == notify.Never && (r.Turn > 0 || r.Facts.Step > 0):
			effects[i] = effectDelete
		}
		settled[r.EventID] = effects[i] != effectNone
	}
	return effects, newest
}
