package notify

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"keyfold/engine"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/similar"
	"keyfold/internal/testserver/must"
)

func recordOf(n int, outcome Outcome, at engine.Millis) *Record {
	return &Record{EventID: idOf(n), Type: Update, Outcome: outcome, Reasons: []string{"X"}, DecidedAt: at, Facts: Facts{Horizon: day}}
}

func TestFoldKeepsBounds(t *testing.T) {
	s := &State{}
	for i := range 300 {
		s.Fold(recordOf(i, Now, testNow+engine.Millis(i)))
	}
	if len(s.Sends) != MaxSends || s.Sends[0] != testNow+44 || len(s.Marks) != MaxMarks || s.Marks[0].At != testNow+44 {
		t.Errorf("%d sends from %d on, %d marks from %d on", len(s.Sends), s.Sends[0]-testNow, len(s.Marks), s.Marks[0].At-testNow)
	}
}

// Others push no mark out of its window: not those of other types, and of its own type
// not the next 255, of which the newest 64 find near texts too.
//
// Promise(notify-worker/duplicates)
func TestARepeatIsFoundBehindOthers(t *testing.T) {
	s := newScene()
	s.set.Policy.Types[Promo].Cooldown, s.set.Policy.Types[Promo].Near = 0, true
	s.event.Type, s.event.Title, s.event.Message = Promo, "Summer sale: shoes and bags at half price", "Only today in all our stores in town."
	s.print()
	first := s.decide()
	s.state.Fold(&first)
	fold := func(n int, of EventType) {
		r := recordOf(n, Later, s.now)
		r.Type, r.Print = of, similar.Of(of.String(), idOf(n).String(), "", nil, "")
		s.state.Fold(r)
	}
	of := func(n int, title string) string {
		s.event.ID, s.event.Title = idOf(n), title
		s.print()
		r := s.decide()
		return r.Reasons[0]
	}
	for i := range 300 {
		fold(1000+i, Message)
	}
	for i := range MaxNear - 1 {
		fold(2000+i, Promo)
	}
	title, near := s.event.Title, "Summer sale! Shoes and bags at half price"
	s.now += hour
	if got := of(5, near); got != ReasonNearDuplicate {
		t.Errorf("behind 300 of another type and 63 of its own, a near text is %s", got)
	}
	fold(3000, Promo)
	if got := of(6, near); got == ReasonNearDuplicate {
		t.Errorf("behind 64 of its own, a near text is %s", got)
	}
	for i := range MaxMarks - MaxNear - 1 {
		fold(4000+i, Promo)
	}
	if got := of(7, title); got != ReasonDuplicate {
		t.Errorf("behind 255 of its own type, a repeat is %s", got)
	}
	fold(5000, Promo)
	if got := of(8, title); got == ReasonDuplicate {
		t.Errorf("behind 256 of its own type, a repeat is %s", got)
	}
}

func TestFoldPrunesByTheHorizon(t *testing.T) {
	s := &State{}
	s.Fold(recordOf(1, Now, testNow))
	s.Fold(recordOf(2, Later, testNow+1))
	s.Fold(recordOf(3, Never, testNow+day-1))
	if len(s.Sends) != 1 || len(s.Marks) != 2 || s.LastSend[Update] != testNow {
		t.Errorf("a millisecond before: %+v", s)
	}
	s.Fold(recordOf(3, Never, testNow+day))
	if len(s.Sends) != 0 || len(s.Marks) != 1 || s.LastSend[Update] != 0 {
		t.Errorf("at the horizon: %+v", s)
	}
}

func TestFoldOfAnEventsTurns(t *testing.T) {
	s := &State{}
	s.Fold(recordOf(1, Later, testNow))
	s.Fold(recordOf(2, Later, testNow+1))
	s.Fold(recordOf(1, Now, testNow+2))
	if len(s.Marks) != 2 || s.Marks[0].EventID != idOf(2) || s.Marks[1].At != testNow+2 || len(s.Sends) != 1 {
		t.Errorf("%+v", s)
	}
	s.Fold(recordOf(2, Never, testNow+3))
	if len(s.Marks) != 1 || s.Marks[0].EventID != idOf(1) {
		t.Errorf("%+v", s.Marks)
	}
	before := s.Clone()
	s.Fold(recordOf(3, Postponed, testNow+4))
	if !reflect.DeepEqual(s, before) {
		t.Errorf("a postponement made %+v", s)
	}
	erased := recordOf(1, Never, testNow+5*day)
	erased.Reasons[0] = ReasonUserErased
	s.Fold(erased)
	if before.DecidedAt = testNow + 5*day; !reflect.DeepEqual(s, before) {
		t.Errorf("an erased user's record made %+v", s)
	}
}

func TestFoldCountsADigestOnce(t *testing.T) {
	s := &State{}
	for i, digest := range []int{0, 7, 7, 8, 0} {
		r := recordOf(i, Now, testNow+engine.Millis(i))
		if digest > 0 {
			r.DigestID = idOf(digest)
		}
		s.Fold(r)
	}
	if len(s.Sends) != 4 || s.LastDigest != idOf(8) || s.LastSend[Update] != testNow+4 {
		t.Errorf("%+v", s)
	}
}

func TestCloneSharesNothing(t *testing.T) {
	s := &State{}
	s.Fold(recordOf(1, Now, testNow))
	c := s.Clone()
	c.Fold(recordOf(1, Later, testNow+1))
	c.Sends[0] = 0
	if s.Sends[0] != testNow || s.Marks[0].At != testNow {
		t.Errorf("the original became %+v", s)
	}
}

func drawState(t *rapid.T) *State {
	millis := rapid.Int64Range(-1<<40, 1<<45)
	s := &State{DecidedAt: engine.Millis(millis.Draw(t, "decided")), Erased: rapid.Bool().Draw(t, "erased")}
	at := engine.Millis(millis.Draw(t, "first"))
	for range rapid.IntRange(0, MaxSends).Draw(t, "sends") {
		s.Sends = append(s.Sends, at)
		at += engine.Millis(rapid.IntRange(0, 1<<30).Draw(t, "step"))
	}
	for _, eventType := range EventTypes {
		s.LastSend[eventType] = engine.Millis(rapid.SampledFrom([]int64{0, 1, int64(testNow)}).Draw(t, "last"))
	}
	for n := range rapid.IntRange(0, MaxMarks).Draw(t, "marks") {
		eventType := rapid.SampledFrom(EventTypes).Draw(t, "type")
		print := similar.Of(eventType.String(), rapid.String().Draw(t, "title"), "", nil, rapid.SampledFrom([]string{"", "k"}).Draw(t, "key"))
		if rapid.Bool().Draw(t, "exact") {
			print = print.Exact()
		}
		s.Marks = append(s.Marks, Mark{EventID: idOf(n), Type: eventType, At: engine.Millis(millis.Draw(t, "at")), Print: print})
	}
	at = engine.Millis(millis.Draw(t, "first slot"))
	for n := range rapid.IntRange(0, MaxSends).Draw(t, "reservations") {
		s.Reserved = append(s.Reserved, Reservation{
			EventID: idOf(n), Sent: drawSent(t, at), Made: at - engine.Millis(rapid.IntRange(0, 1<<30).Draw(t, "made")),
		})
		at += engine.Millis(rapid.IntRange(0, 1<<30).Draw(t, "step"))
	}
	for range rapid.IntRange(0, MaxSends).Draw(t, "sent") {
		s.Sent = append(s.Sent, drawSent(t, at))
		at += engine.Millis(rapid.IntRange(0, 1<<30).Draw(t, "step"))
	}
	if rapid.Bool().Draw(t, "digest") {
		s.LastDigest = idOf(5)
	}
	return s
}

func drawSent(t *rapid.T, at engine.Millis) Sent {
	return Sent{
		At: at, Type: rapid.SampledFrom(EventTypes).Draw(t, "of"), Source: rapid.Uint32().Draw(t, "source"),
		Channels: SetOf(rapid.SliceOf(rapid.SampledFrom(Channels)).Draw(t, "channels")),
		Keys:     [MaxKeys]uint32{rapid.Uint32Range(0, 2).Draw(t, "key")},
		Item:     rapid.Bool().Draw(t, "item"), Follow: rapid.Bool().Draw(t, "follow"),
	}
}

func TestStateCodecIsInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		b := s.Append([]byte("x"))
		got, err := ReadState(b[1:])
		if err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("%v\nwrote %+v\nread  %+v", err, s, got)
		}
		if cut := rapid.IntRange(1, len(b)-1).Draw(t, "cut"); true {
			if _, err := ReadState(b[1:cut]); err == nil {
				t.Fatalf("read %d of %d bytes", cut-1, len(b)-1)
			}
		}
		if _, err := ReadState(append(b[1:], 0)); err == nil {
			t.Fatal("read a byte too many")
		}
	})
}

func fullState() *State {
	s := newScene()
	for i := range 300 {
		s.event.ID, s.event.Title = idOf(100+i), "Order "+idOf(i).String()+" of many orders is on its way to you today"
		s.event.Type = EventTypes[i%len(EventTypes)]
		s.print()
		r := recordOf(100+i, Now, testNow-23*hour+engine.Millis(i)*4*minute)
		r.Type, r.Print = s.event.Type, s.event.Print
		s.state.Fold(r)
	}
	s.state.LastDigest = idOf(1)
	return s.state
}

func TestReadStateRefuses(t *testing.T) {
	good := fullState().Append(nil)
	for name, b := range map[string][]byte{
		"nothing":        nil,
		"a newer one":    append([]byte{stateVersion + 1}, good[1:]...),
		"unknown flags":  append([]byte{stateVersion, 4}, good[2:]...),
		"257 sends":      {stateVersion, 0, 0, 0x81, 2},
		"2,049 marks":    {stateVersion, 0, 0, 0, 0, 0x81, 0x10},
		"sends reversed": {stateVersion, 0, 0, 2, 4, 1, 0, 0},
		"a zero last":    {stateVersion, 0, 0, 0, 1, 0, 0},
		"a zero digest":  append([]byte{stateVersion, 2, 0, 0, 0, 0}, make([]byte, 16)...),
		"a type of none": append([]byte{stateVersion, 0, 0, 0, 0, 1}, make([]byte, 200)...),
	} {
		if s, err := ReadState(b); err == nil || s != nil {
			t.Errorf("%s is read as %+v", name, s)
		}
	}
}

func FuzzReadState(f *testing.F) {
	f.Add(fullState().Append(nil))
	f.Add((&State{}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ReadState(b)
		if err != nil {
			return
		}
		again, err := ReadState(s.Append(nil))
		if err != nil || !sameState(again, s) {
			t.Errorf("%v\nread  %+v\nagain %+v", err, s, again)
		}
		if len(s.Sends) > MaxSends || len(s.Marks) > MaxMarks*len(EventTypes) {
			t.Errorf("%d sends, %d marks", len(s.Sends), len(s.Marks))
		}
	})
}

// A record survives its JSON form.
func TestRecordJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, r := range drawHistory(t).records {
			r.DecisionID, r.Seq = NewDecisionID(r.DecidedAt, [10]byte{1}), 7
			b, err := json.Marshal(r)
			must.OK(t, err)
			var got Record
			must.OK(t, json.Unmarshal(b, &got))
			if !reflect.DeepEqual(got, r) {
				t.Fatalf("%s\nwrote %+v\nread  %+v", b, r, got)
			}
		}
	})
}

func TestRecordJSONNames(t *testing.T) {
	s := newScene()
	s.prefs = Preferences{Zone: zoneNamed("Europe/Berlin"), Quiet: quiet.Hours{{From: 13 * 60, To: 14 * 60}}, Muted: []EventType{Promo}, Channels: []Channel{Push}, Caps: Caps{0, 5, 0}}
	s.score = Score{Cosine: .5, Known: true}
	r := s.decide()
	b, err := json.Marshal(&r)
	must.OK(t, err)
	var got map[string]any
	must.OK(t, json.Unmarshal(b, &got))
	for name, want := range map[string]any{
		"outcome": "LATER", "event_type": "UPDATE", "user_id": "u", "matched_rule_id": nil, "score": nil, "ai_used": false, "ai_score": .5,
		"defer_count": 0.0, "rule_version": "7", "decided_at": "2026-03-10T12:00:00.000Z",
	} {
		if have, there := got[name]; !there || have != want {
			t.Errorf("%s is %v, expected %v", name, have, want)
		}
	}
	for _, absent := range []string{"title", "message", "digest_id", "duplicate_of", "slot"} {
		if _, there := got[absent]; there {
			t.Errorf("%s is there", absent)
		}
	}
	preferences, err := json.Marshal(got["facts"].(map[string]any)["preferences"])
	if err != nil || string(preferences) != `{"caps":[0,5,0],"channels":["push"],"muted":["PROMO"],"quiet":[{"from":"13:00","to":"14:00"}],"zone":"Europe/Berlin"}` {
		t.Errorf("preferences are %s", preferences)
	}
}

func TestJSONRefusesUnknownNames(t *testing.T) {
	for _, text := range []string{
		`{"outcome":"SOON"}`, `{"event_type":"NEWS"}`, `{"channels":["pager"]}`, `{"facts":{"strategy":"soon"}}`, `{"print":""}`,
		`{"facts":{"preferences":{"zone":"Mars/Olympus"}}}`, `{"decided_at":"today"}`,
	} {
		var r Record
		if err := json.Unmarshal([]byte(text), &r); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}
