package notifysim

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/proof/schedule"
)

var zoneNames = []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}

// drawPreferences draws quiet hours that begin and end within the schedule.
func (p *plan) drawPreferences(d *schedule.RNG) (own notify.Preferences) {
	name := zoneNames[d.N(len(zoneNames))]
	if d.Chance(700) {
		own.Zone = zones[name].zone
	} else {
		name = setZone
	}
	if d.Chance(400) {
		begins := p.began + engine.Millis(d.N(int(40*minute))) - 20*minute
		from := zones[name].clock(begins)
		own.Quiet = quiet.Hours{{From: from, To: (from + 5 + quiet.Clock(d.N(40))) % (24 * 60)}}
	}
	if d.Chance(150) {
		own.Muted = []notify.EventType{notify.EventTypes[d.N(len(notify.EventTypes))]}
	}
	if d.Chance(200) {
		own.Channels = []notify.Channel{notify.Channels[d.N(len(notify.Channels))]}
	}
	if d.Chance(500) {
		own.Caps = notify.Caps{1 + d.N(3), 4 + d.N(6), 0}
	}
	p.drawWishes(d, &own)
	return own
}

// drawWishes draws what a user wishes of topics, and until when.
func (p *plan) drawWishes(d *schedule.RNG, own *notify.Preferences) {
	soon := func(thousandths int) engine.Millis {
		if !d.Chance(thousandths) {
			return 0
		}
		return p.began + engine.Millis(d.N(int(20*minute)))
	}
	own.MutedUntil, own.SnoozedUntil, own.Paused = soon(60), soon(150), d.Chance(30)
	if d.Chance(100) {
		own.Digests = halfHours
	}
	for _, t := range topics {
		choice := notify.TopicPreference{MutedUntil: soon(60), SnoozedUntil: soon(100)}
		for _, c := range notify.Channels {
			if d.Chance(300) {
				choice.Channels[c] = []notify.Choice{notify.ChoiceOff, notify.ChoiceDigest, notify.ChoiceDigest, notify.ChoiceOn}[d.N(4)]
			}
		}
		if choice != (notify.TopicPreference{}) {
			if own.Topics == nil {
				own.Topics = map[string]notify.TopicPreference{}
			}
			own.Topics[t.Name] = choice
		}
	}
}

var halfHours = func() (all []quiet.Clock) {
	for at := quiet.Clock(0); at < 24*60; at += 30 {
		all = append(all, at)
	}
	return all
}()

// texts are titles with their messages: equal ones, rewordings, ones that differ in a
// number.
var texts = [][2]string{
	{"Order 1001 shipped", ""},
	{"Order 1002 shipped", ""},
	{"Your code is 123456", ""},
	{"New message from Anna", "See you at eight?"},
	{"Summer sale", "All shoes and bags are now thirty percent off until Sunday evening, in every shop and online."},
	{"Summer sale", "All shoes and bags are thirty percent off until Sunday night, in every shop and online."},
	{"Price drop", "The lamp that you liked costs 39.90 now."},
	{"Price drop", "The lamp that you liked costs 29.90 now."},
}

// drawEvents draws events and when they are published: a tenth of them twice.
func (p *plan) drawEvents(d *schedule.RNG) {
	span := d.Between(time.Second, p.quietAfter)
	for i := range 4 + d.N(40) {
		at := d.Between(0, span)
		if d.Chance(300) {
			at = d.Between(span/2, span/2+time.Second) // a burst
		}
		p.events = append(p.events, p.drawEvent(d, at))
		p.publishes = append(p.publishes, publish{at, i})
		for again := 100; d.Chance(again); again = 300 {
			at += d.Latency(2*time.Second, time.Minute)
			p.publishes = append(p.publishes, publish{at, i})
		}
	}
	slices.SortStableFunc(p.publishes, func(a, b publish) int { return int(a.at - b.at) })
}

// drawEvent draws an event that is published at a time.
func (p *plan) drawEvent(d *schedule.RNG, at time.Duration) *notify.Notification {
	now := p.began + engine.Millis(at.Milliseconds())
	timestamp := now - engine.Millis(d.N(int(2*minute)))
	text := texts[d.N(len(texts))]
	body := map[string]any{
		"event_id": drawUUID(d), "user_id": p.users[min(d.N(len(p.users)), d.N(len(p.users)))].id,
		"event_type": notify.EventTypes[d.N(len(notify.EventTypes))].String(), "title": text[0],
		"source": sources[d.N(len(sources))], "channel": [][]string{{"push"}, {"push", "email"}, {"sms", "in_app"}, {"push", "email", "in_app"}, {"in_app"}}[d.N(5)],
		"timestamp": instantText(timestamp),
	}
	if text[1] != "" {
		body["message"] = text[1]
	}
	if hint := notify.Hint(d.N(5)); hint != 0 {
		body["priority_hint"] = hint.String()
	}
	if d.Chance(200) {
		body["dedupe_key"] = []string{"k1", "k2"}[d.N(2)]
	}
	if d.Chance(300) {
		body["metadata"] = map[string]any{"order_id": []string{"1001", "1002"}[d.N(2)]}
	}
	if d.Chance(400) {
		body["expires_at"] = instantText(timestamp + second + engine.Millis(d.N(int([]engine.Millis{20 * second, 4 * minute, 40 * minute}[d.N(3)]))))
	}
	switch {
	case body["dedupe_key"] != nil && d.Chance(300):
		body["replaces"] = "dedupe_key"
	case d.Chance(150):
		user := body["user_id"]
		if d.Chance(300) {
			user = "" // of any: it may be another id of the same person
		}
		if id := p.earlierOf(d, user); id != uuid.Nil {
			body["replaces"] = id
		}
	}
	bytes, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	e, err := notify.Parse(bytes, now)
	if err != nil {
		panic(err)
	}
	return e
}

// earlierOf draws an event of a user, or of any, that was drawn before, the zero id where there is none.
func (p *plan) earlierOf(d *schedule.RNG, user any) uuid.UUID {
	var ids []uuid.UUID
	for _, e := range p.events {
		if user == "" || e.UserID == user {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return uuid.Nil
	}
	return ids[d.N(len(ids))]
}

// eventOf returns the event of an id, nil where there is none.
func (p *plan) eventOf(id uuid.UUID) *notify.Notification {
	if at := slices.IndexFunc(p.events, func(e *notify.Notification) bool { return e.ID == id }); at >= 0 {
		return p.events[at]
	}
	return nil
}

func instantText(at engine.Millis) string {
	return at.Time().UTC().Format("2006-01-02T15:04:05.000Z")
}
