package notify

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine/notify/quiet"
)

// Each case names the sentences behind the headline.
var explained = []struct {
	name   string
	change func(s *scene)
	lines  []string
}{
	{"expired", func(s *scene) { s.event.ExpiresAt = s.now - 90*minute }, []string{
		"It expired at 11:30:00, before it could be decided.",
		"It is never sent.",
	}},
	{"muted", func(s *scene) { s.prefs.Muted = []EventType{Update} }, []string{
		"The user has muted notifications of the type UPDATE.",
		"It is never sent.",
	}},
	{"near", func(s *scene) {
		s.event.Type, s.event.Title = Promo, promoText
		s.marked(Promo, nearText, "", -1)
	}, []string{
		"It says nearly the same as event 00000000-0000-4000-8000-000000000002, which was sent or waits already (found by the words that both have).",
		"It is never sent.",
	}},
	{"a rule says never", func(s *scene) { s.set.Rules = always(Action{Name: "No sale", Outcome: Never, Reason: "NO_SALE"}) }, []string{
		`The rule "No sale" says that it is never sent (NO_SALE).`,
		"It is never sent.",
	}},
	{"forced", func(s *scene) {
		s.set.Rules = always(Action{Name: "Security", Outcome: Now, Reason: "SECURITY", Bypass: Forced})
		s.sent(-2*minute, -minute, -second)
	}, []string{
		`The rule "Security" sends it at once: no limit and no quiet hours that it heeds hold it.`,
		"5 min: 3 of 3 sent, a slot frees at 13:03:00; this does not decide here.",
		"1 h: 3 of 6 sent.",
		"24 h: 3 of 20 sent.",
		"It is sent now, by push, email.",
	}},
	{"held by all", func(s *scene) {
		s.prefs.Quiet = quiet.Hours{{From: 12 * 60, To: 14 * 60}}
		s.state.LastSend[Update] = s.now - 10*minute
		s.sent(-2*minute, -minute, -second)
	}, []string{
		"No rule of the set 7 decides it.",
		"5 min: 3 of 3 sent, a slot frees at 13:03:00.",
		"1 h: 3 of 6 sent.",
		"24 h: 3 of 20 sent.",
		"The pause after the last UPDATE ends at 13:20:00.",
		"The user's quiet hours end at 14:00:00.",
		"It waits until 14:08:48 (FATIGUE_CAP_5M, COOLDOWN, QUIET_HOURS), with slots that are kept for others, quiet hours that begin until then and up to 10 minutes that spread what waits for a morning, and is then decided again (decision 2 of at most 3).",
		"A slot is kept for it at that time.",
	}},
	{"a rule defers it to a morning", func(s *scene) {
		s.set.Rules = always(Action{Name: "Later", Outcome: Later, Reason: "WAIT", Strategy: NextHour})
		s.turn.Number = 1
	}, []string{
		"It had waited before: this is decision 2 of at most 3.",
		`The rule "Later" makes it wait until 14:00:00 (the next full hour).`,
		"5 min: 0 of 3 sent.",
		"1 h: 0 of 6 sent.",
		"24 h: 0 of 20 sent.",
		"It waits until 14:00:00 (WAIT) and is then decided again (decision 3 of at most 3).",
	}},
	{"score with taste", func(s *scene) {
		s.event.Type, s.event.Hint, s.score, s.set.Policy.Score.Taste = Promo, Low, Score{Cosine: .25, Known: true}, true
	}, []string{
		"No rule of the set 7 decides it.",
		"5 min: 0 of 3 sent.",
		"1 h: 0 of 6 sent.",
		"24 h: 0 of 20 sent.",
		"Nothing holds it, so its score decides: 0.47 of 1, from its type 0.25, the sender's hint 0.20, the user's taste 0.50, its freshness 1.00 and how little was sent lately 1.00.",
		"That is enough for the next digest, not to be sent at once.",
		`It waits for the digest "PROMO" of 18:00:00 (SCORE_DIGEST).`,
	}},
	{"score without taste", func(s *scene) {
		s.event.Type, s.event.Hint, s.score, s.set.Policy.Score.Taste = Promo, Low, Score{Skip: SkipEmbeddingLate}, true
	}, []string{
		"No rule of the set 7 decides it.",
		"5 min: 0 of 3 sent.",
		"1 h: 0 of 6 sent.",
		"24 h: 0 of 20 sent.",
		"Nothing holds it, so its score decides: 0.47 of 1, from its type 0.25, the sender's hint 0.20 (without the user's taste: the embedding API did not answer in time), its freshness 1.00 and how little was sent lately 1.00.",
		"That is enough for the next digest, not to be sent at once.",
		`It waits for the digest "PROMO" of 18:00:00 (SCORE_DIGEST).`,
	}},
	{"expires first", func(s *scene) {
		s.event.ExpiresAt = s.now + minute
		s.sent(-2*minute, -minute, -second)
	}, []string{
		"No rule of the set 7 decides it.",
		"5 min: 3 of 3 sent, a slot frees at 13:03:00.",
		"1 h: 3 of 6 sent.",
		"24 h: 3 of 20 sent.",
		"It would have to wait until after it expires at 13:01:00, so it is never sent.",
	}},
	{"the limit in quiet hours", func(s *scene) {
		s.event.Type, s.turn.Number, s.prefs.Quiet = Reminder, MaxTurn, night
		s.now += 10 * hour
	}, []string{
		"It had waited before: this is decision 3 of at most 3.",
		"No rule of the set 7 decides it.",
		"5 min: 0 of 3 sent.",
		"1 h: 0 of 6 sent.",
		"24 h: 0 of 20 sent.",
		"The user's quiet hours end at 07:00:00 on Wednesday, 11 March 2026.",
		"It has waited 2 times already: it is sent when the user's quiet hours end at 07:00:00 on Wednesday, 11 March 2026.",
	}},
}

func TestExplain(t *testing.T) {
	for _, tc := range explained {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			tc.change(s)
			s.print()
			r := s.decide()
			told := Explain(&Decided{Record: r, Event: s.event})
			lines := told.Lines
			if !strings.HasPrefix(lines[0], r.Type.String()+` "`+s.event.Title+`" for user u was decided at `) ||
				!strings.HasSuffix(lines[0], "10 March 2026 (Europe/Berlin): "+r.Outcome.String()+".") {
				t.Errorf("the headline is %s", lines[0])
			}
			if !slices.Equal(lines[1:], tc.lines) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(lines[1:], "\n"), strings.Join(tc.lines, "\n"))
			}
		})
	}
}

// nearRules nearly match, all of them.
type nearRules struct{ Rules }

func (r nearRules) MatchNear(in *Input, spent []uuid.UUID, most int) (*Action, []string) {
	return r.Match(in, spent), []string{"one: asks for local_hour gte 20, found 13", "two: asks for turn eq 1, found 0", "three: a", "four: b"}[:most]
}

// Each stage has a result, and the record alone tells why it is not NOW and what follows.
func TestStagesAreExplained(t *testing.T) {
	const passed, holds, ends, skipped, not = StagePassed, StageHolds, StageEnds, StageSkipped, StageNotAsked
	held := func(s *scene) { s.sent(-2*minute, -minute, -second) }
	for _, tc := range []struct {
		name   string
		change func(s *scene)
		want   [13]StageResult
		notNow int // sentences
	}{
		{"sent", func(*scene) {}, [13]StageResult{passed, passed, passed, passed, passed, passed, passed, passed, passed, passed, ends, not, not}, 0},
		{"expired", func(s *scene) { s.event.ExpiresAt = s.now - minute }, [13]StageResult{ends, not, not, not, not, not, not, not, not, not, not, not, not}, 2},
		{"muted", func(s *scene) { s.prefs.Muted = []EventType{Update} }, [13]StageResult{passed, ends, not, not, not, not, not, not, not, not, not, not, not}, 2},
		{
			"a rule says never", func(s *scene) { s.set.Rules = always(Action{Name: "No", Outcome: Never, Reason: "NO"}) },
			[13]StageResult{passed, passed, passed, passed, passed, ends, not, not, not, not, not, not, not},
			2,
		},
		{"forced past a cap", func(s *scene) {
			held(s)
			s.set.Rules = always(Action{Name: "Yes", Outcome: Now, Reason: "YES", Bypass: Forced})
		}, [13]StageResult{passed, passed, passed, passed, passed, passed, ends, skipped, not, not, not, not, not}, 0},
		{"held", held, [13]StageResult{passed, passed, passed, passed, passed, passed, passed, holds, passed, passed, not, passed, passed}, 2},
		{"held by a rule and a cap", func(s *scene) {
			held(s)
			s.set.Rules = always(Action{Name: "Wait", Outcome: Later, Reason: "WAIT", Strategy: NextHour})
		}, [13]StageResult{passed, passed, passed, passed, passed, passed, holds, holds, passed, passed, not, passed, passed}, 3},
		{"expires first", func(s *scene) {
			held(s)
			s.event.ExpiresAt = s.now + minute
		}, [13]StageResult{passed, passed, passed, passed, passed, passed, passed, holds, passed, passed, not, passed, ends}, 2},
		{"the slot of a digest comes after its expiry", func(s *scene) {
			s.event.Type, s.event.Hint, s.event.ExpiresAt = Promo, Low, s.now+minute
		}, [13]StageResult{passed, passed, passed, passed, passed, passed, passed, passed, passed, passed, holds, passed, ends}, 2},
		{"the limit", func(s *scene) {
			held(s)
			s.turn.Number = MaxTurn
		}, [13]StageResult{passed, passed, passed, passed, passed, passed, passed, holds, passed, passed, not, ends, not}, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene()
			tc.change(s)
			r := s.decide()
			told := Explain(&Decided{Record: r, Event: s.event})
			decided := slices.Index(tc.want[:], ends)
			if decided < 0 {
				decided = slices.Index(tc.want[:], holds)
			}
			if told.DecidedBy != Stages[decided].Name {
				t.Errorf("decided by %q, want %q", told.DecidedBy, Stages[decided].Name)
			}
			for i, stage := range told.Stages {
				if stage.Number != i+1 || stage.Result != tc.want[i] {
					t.Errorf("stage %d, %s: %s, want %s", stage.Number, stage.Name, stage.Result, tc.want[i])
				}
			}
			if len(told.NotNow) != tc.notNow {
				t.Errorf("why not NOW: %q", told.NotNow)
			}
			if (told.Next != nil) != (r.Outcome == Later) || told.Next != nil && (told.Next.Turn != 1 || told.Next.At != instant(r.DeferUntil)) {
				t.Errorf("next turn %+v", told.Next)
			}
		})
	}
}

// A sentence is told by the stage that it is of, and by no other.
func TestEachStageTellsWhatItSaw(t *testing.T) {
	for _, tc := range []struct {
		stage  int
		change func(s *scene)
	}{
		{1, func(s *scene) { s.event.ExpiresAt = s.now }},
		{2, func(s *scene) { s.prefs.Muted = []EventType{Update} }},
		{4, func(s *scene) { s.marked(Update, s.event.Title, "", -1) }},
		{5, func(s *scene) {
			s.event.Type, s.event.Title = Promo, promoText
			s.marked(Promo, nearText, "", -1)
		}},
		{6, func(s *scene) { s.set.Rules = always(Action{Name: "No", Outcome: Never, Reason: "NO"}) }},
		{7, func(s *scene) { s.set.Rules = always(Action{Name: "Yes", Outcome: Now, Reason: "YES", Bypass: Forced}) }},
	} {
		s := newScene()
		tc.change(s)
		s.print()
		for i, stage := range Explain(&Decided{Record: s.decide(), Event: s.event}).Stages {
			if told := len(stage.Saw) > 0; told != (i+1 == tc.stage) {
				t.Errorf("decided by stage %d: stage %d tells %q", tc.stage, i+1, stage.Saw)
			}
		}
	}
}

// A record keeps the first rules that nearly matched, and they are told.
func TestNearRulesAreRecorded(t *testing.T) {
	s := newScene()
	s.set.Rules = nearRules{rulesFunc(func(*Input, []uuid.UUID) *Action { return nil })}
	told := Explain(&Decided{Record: s.decide(), Event: s.event})
	if saw := told.Stages[5].Saw; len(saw) != 4 || saw[1] != "A rule nearly matched: one: asks for local_hour gte 20, found 13." {
		t.Errorf("%q", saw)
	}
}

// Of an erased user's record nothing is told but that.
func TestErasedIsNotExplained(t *testing.T) {
	r := newScene().decide()
	r.UserID = ""
	told := Explain(&Decided{Record: r})
	if !told.Erased || len(told.Lines) != 1 || len(told.Stages)+len(told.NotNow) != 0 || told.Next != nil {
		t.Errorf("%+v", told)
	}
}
