package notifications

import (
	"math/rand/v2"
	"strconv"

	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

// User is one whom the week's events are for.
type User struct {
	ID          string // the shop's user_id in decimal
	Country     string
	Zone        string // of the user, whether the preferences name it or not
	Preferences notify.Preferences
}

// person is a user with what the generator knows of one.
type person struct {
	User

	id      int32
	country *country
	name    string
	silent  bool // services send this user's notifications without identity metadata
	dated   bool // services send the user's zone as metadata.timezone
	group   int  // of an A/B test of texts, 0 or 1
}

var firstNames = map[string][]string{
	"en": {"Emma", "Liam", "Olivia", "Noah", "Ava", "Jack", "Mia", "Harry", "Priya", "Arjun", "Chloe", "Sam"},
	"de": {"Lena", "Jonas", "Mia", "Paul", "Jürgen", "Sabine", "Anke", "Björn", "Lukas", "Käthe"},
	"fr": {"Léa", "Hugo", "Chloé", "Louis", "Zoé", "François", "Inès", "Gaël"},
	"es": {"Lucía", "Mateo", "Sofía", "Hugo", "Íñigo", "Carmen", "José", "Begoña"},
	"ja": {"佐藤", "鈴木", "高橋", "田中", "伊藤", "渡辺", "山本", "中村"},
}

// crowd makes each person of the user id alone, so that what others do changes nothing.
type crowd struct {
	config Config
	known  map[int32]*person
}

// of returns a user. A country that the table has not is drawn by shares.
func (c *crowd) of(id int32, countryName string) *person {
	if p := c.known[id]; p != nil {
		return p
	}
	r := rand.New(rand.NewPCG(c.config.Seed, uint64(uint32(id))<<8|1))
	home := pickCountry(r, countryName)
	names := firstNames[home.language]
	p := &person{
		User: User{ID: strconv.Itoa(int(id)), Country: home.name, Zone: home.zone},
		id:   id, country: home,
		name:   names[r.IntN(len(names))],
		silent: r.Float64() < c.config.Unidentified,
		dated:  r.IntN(5) == 0,
		group:  r.IntN(2),
	}
	p.Preferences = preferences(r, home)
	if c.known == nil {
		c.known = map[int32]*person{}
	}
	c.known[id] = p
	return p
}

func pickCountry(r *rand.Rand, name string) *country {
	total, named := 0, false
	for i := range countries {
		named = named || countries[i].name == name
		total += countries[i].share
	}
	if named {
		total = 0
		for i := range countries {
			if countries[i].name == name {
				total += countries[i].share
			}
		}
	}
	n := r.IntN(total)
	for i := range countries {
		if named && countries[i].name != name {
			continue
		}
		if n -= countries[i].share; n < 0 {
			return &countries[i]
		}
	}
	panic("shares do not add up")
}

// preferences draws a user's settings.
func preferences(r *rand.Rand, home *country) notify.Preferences {
	p := notify.Preferences{Quiet: pickHabit(r).hours}
	if r.IntN(10) < 7 { // others have not set their zone
		p.Zone = home.load()
	}
	for _, m := range []struct {
		kind    notify.EventType
		percent int
	}{{notify.Promo, 18}, {notify.Digest, 8}, {notify.Reminder, 5}, {notify.Update, 2}, {notify.Security, 1}} {
		if r.IntN(100) < m.percent {
			p.Muted = append(p.Muted, m.kind)
		}
	}
	switch n := r.IntN(100); {
	case n < 12:
		p.Channels = []notify.Channel{notify.Push, notify.Email, notify.InApp}
	case n < 20:
		p.Channels = []notify.Channel{notify.Push, notify.InApp}
	case n < 26:
		p.Channels = []notify.Channel{notify.Email}
	case n < 29:
		p.Channels = []notify.Channel{notify.SMS}
	}
	if n := r.IntN(100); n < 12 {
		p.Caps = []notify.Caps{{1, 3, 8}, {2, 4, 10}, {0, 0, 5}, {5, 20, 60}}[n%4]
	}
	return p
}

func pickHabit(r *rand.Rand) *habit {
	total := 0
	for i := range habits {
		total += habits[i].share
	}
	n := r.IntN(total)
	for i := range habits {
		if n -= habits[i].share; n < 0 {
			return &habits[i]
		}
	}
	panic("shares do not add up")
}

// load returns the country's zone; nil, so that the user has none set, where the
// machine's zone data do not know it.
func (c *country) load() *quiet.Zone {
	zone, err := quiet.LoadZone(c.zone)
	if err != nil {
		return nil
	}
	return zone
}
