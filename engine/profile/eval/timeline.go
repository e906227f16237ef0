package eval

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// Options say which questions a log is asked.
type Options struct {
	WarmUp  float64           // share of the events that are asked nothing, from 0 to 1
	Choose  float64           // share of the events, after those, by which settings are chosen
	Targets profile.EventType // only events of this type are questions; 0: of every type
	// Against are types that tell against a product: their events are no questions.
	Against []profile.EventType
	// Repeats asks for products that the user has met before, too. The product of
	// the event before is none.
	Repeats bool
	// Horizon asks once a day for all products of the time to come, instead of the
	// next one. 0: for the next one.
	Horizon engine.Millis
	Users   float64 // share of the users that are asked, chosen by their ids; 0: all there is time for
	// Control gives each event to a random user, so that no history says anything.
	Control bool
}

// Validate reports every fault at once.
func (o Options) Validate() error {
	var faults engine.Faults
	faults.If(!(o.WarmUp > 0 && o.WarmUp < 1), "the warm-up is %v: it must be a share of the events, above 0 and below 1", o.WarmUp)
	faults.If(!(o.Choose >= 0 && o.WarmUp+o.Choose < 1), "the part to choose by is %v: with the warm-up of %v it must leave a part to test by", o.Choose, o.WarmUp)
	faults.If(!(o.Users >= 0 && o.Users <= 1), "the share of users is %v: it must be from 0 to 1", o.Users)
	faults.If(o.Horizon < 0, "the horizon is negative")
	return faults.Err()
}

// Thing is what an event is about: a product, or a phrase where Product is 0.
type Thing struct {
	Product int32
	Phrase  string
}

// Timeline is a log made ready for its questions.
type Timeline struct {
	// Things has the candidates first, by id: the products of the warm-up that are
	// in the catalogue.
	Things     []Thing
	Candidates int
	Events     int // without repeats
	Repeated   int // events with a message_id that their user had before
	People     int // users
	First      engine.Millis
	Last       engine.Millis
	ChooseFrom engine.Millis // where the warm-up ends
	TestFrom   engine.Millis // where the part to choose by ends; equal to ChooseFrom where there is none
	LeftOut    LeftOut       // of the part to test by
	Questions  [2]int        // of the parts to choose and to test by
	Share      float64       // of the users, who are asked

	options    Options
	users      []user // by id, those with questions
	popularity popularity
	sessions   [][]int32
	types      map[profile.EventType]int
}

// LeftOut counts the product events of the part to test by that are no question.
type LeftOut struct {
	Products    int `json:"product_events"` // all, questions among them
	Unknown     int `json:"unknown_product"`
	Cold        int `json:"not_in_warm_up"` // the warm-up has no event of the product
	OtherType   int `json:"other_type"`
	First       int `json:"first_of_user"`
	Met         int `json:"met_before"`
	SameInstant int `json:"same_instant"` // asked already
}

type user struct {
	id        int32
	events    []event
	questions []question
}

type event struct {
	at      engine.Millis
	thing   int32 // -1: nothing that can have a vector
	product int32
	kind    profile.EventType
}

// New makes a timeline of events in any order. known says which products are in
// the catalogue. It takes the events over: their order changes.
func New(events []profile.Event, known func(product int32) bool, o Options) (*Timeline, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &Timeline{options: o, types: map[profile.EventType]int{}}
	events = t.order(events)
	if len(events) == 0 {
		return nil, fmt.Errorf("the log has no event: nothing can be asked of it")
	}
	if o.Control {
		shuffleUsers(events)
	}
	t.Events, t.First, t.Last = len(events), events[0].OccurredAt, events[len(events)-1].OccurredAt
	t.ChooseFrom = events[int(float64(len(events))*o.WarmUp)].OccurredAt
	t.TestFrom = events[int(float64(len(events))*(o.WarmUp+o.Choose))].OccurredAt
	index := t.listThings(events, known)
	for i := range events {
		t.types[events[i].Type]++
	}
	users := t.byUser(events, index)
	t.popularity = countPopularity(t, users)
	t.sessions = sessions(t, users)
	if t.askAll(users, o.Users); o.Users == 0 && t.affordable() < 1 {
		t.askAll(users, t.affordable())
	}
	return t, nil
}

// askAll lists the questions of a share of the users, all of them where it is 0.
func (t *Timeline) askAll(users []user, share float64) {
	if share == 0 {
		share = 1
	}
	t.Share, t.users, t.Questions, t.LeftOut = share, nil, [2]int{}, LeftOut{}
	for i := range users {
		u := users[i]
		if u.questions = nil; !u.among(share) {
			continue
		}
		if t.ask(&u); len(u.questions) > 0 {
			t.users = append(t.users, u)
		}
	}
}

// mostSums is how many sums there is time for, of one event and candidate each: some two
// minutes of a pass with thirty settings on two processors.
const mostSums = 2e10

// affordable is the share of the users that there is time for.
func (t *Timeline) affordable() float64 {
	sums := float64(2*(t.Questions[0]+t.Questions[1])) * float64(t.Candidates)
	for i := range t.users {
		sums += float64(len(t.users[i].events)) * float64(t.Candidates)
	}
	return min(1, max(0.001, mostSums/sums))
}

// order sorts the events as they are folded and drops repeated ids.
func (t *Timeline) order(events []profile.Event) []profile.Event {
	slices.SortFunc(events, func(a, b profile.Event) int { return cmp.Or(a.Compare(&b), cmp.Compare(a.UserID, b.UserID)) })
	type key struct {
		user int32
		id   profile.Digest
	}
	met := make(map[key]struct{}, len(events))
	kept := events[:0]
	for _, e := range events {
		k := key{e.UserID, e.Digest}
		if _, repeated := met[k]; repeated {
			t.Repeated++
			continue
		}
		met[k] = struct{}{}
		kept = append(kept, e)
	}
	return kept
}

// shuffleUsers gives each event to the user of another one.
func shuffleUsers(events []profile.Event) {
	random := rand.New(rand.NewPCG(1, 0))
	random.Shuffle(len(events), func(i, j int) { events[i].UserID, events[j].UserID = events[j].UserID, events[i].UserID })
}

// listThings lists what the events are about, the candidates first.
func (t *Timeline) listThings(events []profile.Event, known func(int32) bool) map[Thing]int32 {
	index := map[Thing]int32{}
	for _, e := range events {
		if e.OccurredAt < t.ChooseFrom && e.ProductID != 0 && known(e.ProductID) {
			index[Thing{Product: e.ProductID}] = 0
		}
	}
	for thing := range index {
		t.Things = append(t.Things, thing)
	}
	slices.SortFunc(t.Things, func(a, b Thing) int { return cmp.Compare(a.Product, b.Product) })
	t.Candidates = len(t.Things)
	for i, thing := range t.Things {
		index[thing] = int32(i)
	}
	for _, e := range events {
		thing := thingOf(&e)
		if _, listed := index[thing]; !listed && (e.ProductID == 0 || known(e.ProductID)) {
			index[thing] = int32(len(t.Things))
			t.Things = append(t.Things, thing)
		}
	}
	return index
}

func thingOf(e *profile.Event) Thing {
	if e.ProductID != 0 {
		return Thing{Product: e.ProductID}
	}
	return Thing{Phrase: e.Phrase}
}

// byUser parts the events by user, in order.
func (t *Timeline) byUser(events []profile.Event, index map[Thing]int32) []user {
	of := map[int32]int{}
	var users []user
	for i := range events {
		e := &events[i]
		thing, listed := index[thingOf(e)]
		if !listed {
			thing = -1
		}
		at, met := of[e.UserID]
		if !met {
			at = len(users)
			of[e.UserID] = at
			users = append(users, user{id: e.UserID})
		}
		users[at].events = append(users[at].events, event{e.OccurredAt, thing, e.ProductID, e.Type})
	}
	t.People = len(users)
	slices.SortFunc(users, func(a, b user) int { return cmp.Compare(a.id, b.id) })
	return users
}

// among reports whether a user is in a sample of that share. Fibonacci hashing spreads ids
// that follow each other.
func (u *user) among(share float64) bool { return float64(uint32(u.id)*2654435769)/(1<<32) < share }

// AskedUsers is how many users have questions.
func (t *Timeline) AskedUsers() int { return len(t.users) }

// TypeCounts returns how many events there are of each type.
func (t *Timeline) TypeCounts() map[profile.EventType]int { return t.types }

// Sessions returns the candidates of each session of the warm-up, each once and at
// most 200 of them, to learn from. A pause of 30 minutes ends a session.
func (t *Timeline) Sessions() [][]int32 { return t.sessions }

func sessions(t *Timeline, users []user) (all [][]int32) {
	s := Sessions{Pause: SessionPause, Each: func(session []int32) { all = append(all, slices.Clone(session)) }}
	for i := range users {
		for _, e := range users[i].events {
			if e.at >= t.ChooseFrom {
				break
			}
			if !t.candidate(e.thing) {
				e.thing = -1
			}
			s.Add(e.at, e.thing)
		}
		s.End()
	}
	return all
}

func (t *Timeline) candidate(thing int32) bool { return thing >= 0 && int(thing) < t.Candidates }
