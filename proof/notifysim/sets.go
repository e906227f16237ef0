package notifysim

import (
	"fmt"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/engine/notify/rule"
	"keyfold/proof/notifyoracle"
)

// setZone is the zone of users without one.
const setZone = "Europe/Berlin"

// zone is a time zone and its clock.
type zone struct {
	zone     *quiet.Zone
	location *time.Location
}

var zones = func() map[string]zone {
	all := map[string]zone{}
	for _, name := range zoneNames {
		z, err := quiet.LoadZone(name)
		if err != nil {
			panic(err)
		}
		location, err := time.LoadLocation(name)
		if err != nil {
			panic(err)
		}
		all[name] = zone{z, location}
	}
	return all
}()

// clock returns what the zone's clock shows.
func (z zone) clock(at engine.Millis) quiet.Clock {
	local := at.Time().In(z.location)
	return quiet.Clock(local.Hour()*60 + local.Minute())
}

// set is a set in the forms of the notifier and of the oracle.
type set struct {
	*notify.Set
	oracle *notifyoracle.Set
}

// Current implements [notify.Sets].
func (s set) Current() *notify.Set { return s.Set }

var sources = []string{"shop", "shop", "shop", "news", "slow", "off", "chain", "chain"}

// ruleText is a rule of a document: its number, condition and action.
const ruleText = `{"rule_id":"6b657966-6f6c-4d00-8000-00000000010%d","name":"rule %[1]d","priority":%[1]d,"conditions":%s,"action":%s,"enabled":true,"version":"1.0.0","updated_by":"sim"}`

// sets are the two sets of every schedule. Slots, cooldowns and the shortest cap end
// within minutes.
var sets = [2]set{
	newSet("1", notify.Caps{2, 6, 100}, firstPolicy,
		fmt.Sprintf(ruleText, 1, `{"field":"event_type","operator":"eq","value":"SECURITY"}`, `{"outcome":"NOW","reason_code":"SECURITY"}`),
		fmt.Sprintf(ruleText, 2, `{"field":"source","operator":"eq","value":"news"}`, `{"outcome":"LATER","defer_strategy":"digest_window","digest_key":["source"],"reason_code":"NEWS"}`),
		fmt.Sprintf(ruleText, 3, `{"field":"source","operator":"eq","value":"slow"}`, `{"outcome":"LATER","defer_strategy":"fixed_delay_15m","reason_code":"SLOW"}`),
		fmt.Sprintf(ruleText, 4, `{"field":"source","operator":"eq","value":"off"}`, `{"outcome":"NEVER","reason_code":"OFF"}`),
		fmt.Sprintf(ruleText, 5, `{"field":"source","operator":"eq","value":"chain"}`, `{"outcome":"NOW","bypass":["caps"],"reason_code":"CHAIN","channel_override":["push"],
			"escalate":[{"after":"2m","channels":["email"],"unless":"read"},{"after":"3m","channels":["sms"],"unless":"delivered"}]}`),
	),
	newSet("2", notify.Caps{3, 5, 100}, secondPolicy,
		fmt.Sprintf(ruleText, 1, `{"field":"priority_hint","operator":"eq","value":"CRITICAL"}`, `{"outcome":"NOW","bypass":["caps","cooldown"],"reason_code":"CRITICAL"}`),
		fmt.Sprintf(ruleText, 2, `{"field":"source","operator":"in","value":["news","slow"]}`, `{"outcome":"LATER","defer_strategy":"digest_window","reason_code":"NEWS"}`),
		fmt.Sprintf(ruleText, 3, `{"field":"source","operator":"eq","value":"chain"}`, `{"outcome":"NOW","bypass":[],"reason_code":"CHAIN","channel_override":["in_app","push"],
			"escalate":[{"after":"1m","channels":["sms"],"unless":"delivered"},{"after":"4m","channels":["email"],"unless":"never"}]}`),
	),
}

// topics of both sets.
var topics = []notify.Topic{
	{Name: "alarms", Of: notify.Selector{Types: []notify.EventType{notify.Alert}}, Locked: true},
	{Name: "offers", Of: notify.Selector{Types: []notify.EventType{notify.Promo, notify.Digest}}},
	{Name: "shop", Of: notify.Selector{Sources: []string{"shop"}}},
}

// firstPolicy and secondPolicy set limits of minutes, topics and channels that wake no one.
func firstPolicy(p *notify.Policy) {
	p.Limits = []notify.Limit{
		{Name: "offers", Of: notify.Selector{Types: []notify.EventType{notify.Promo, notify.Update}}, Most: 1, Within: 2 * minute},
		{Name: "push", Of: notify.Selector{Channels: []notify.Channel{notify.Push}}, Most: 2, Within: 4 * minute},
		{Name: "order", Key: []string{"metadata.order_id"}, Most: 1, Within: 3 * minute},
		{Name: "shop", Of: notify.Selector{Sources: []string{"shop"}}, Most: 4, Within: 10 * minute},
	}
	p.Topics, p.Awake = topics, notify.SetOf([]notify.Channel{notify.InApp})
	for _, kind := range []notify.EventType{notify.Update, notify.Message, notify.Alert} {
		p.Types[kind].OthersLater = true
	}
	p.Types[notify.Promo].CappedToDigest = true
	p.Digests = map[string]notify.DigestPolicy{"": {Show: 2}}
}

func secondPolicy(p *notify.Policy) {
	p.Limits = []notify.Limit{
		{Name: "source", Key: []string{"source"}, Most: 3, Within: 5 * minute},
		{Name: "order", Key: []string{"metadata.order_id"}, Most: 2, Within: 6 * minute},
		{Name: "email", Of: notify.Selector{Types: []notify.EventType{notify.Update, notify.Reminder, notify.Security}, Channels: []notify.Channel{notify.Email, notify.SMS}}, Most: 1, Within: minute},
	}
	p.Topics, p.Awake = topics, notify.SetOf([]notify.Channel{notify.InApp, notify.Email})
	for _, kind := range []notify.EventType{notify.Update, notify.Promo, notify.Security} {
		p.Types[kind].OthersLater, p.Types[kind].CappedToDigest = true, kind != notify.Security
	}
	p.Score.Response = .2
}

func newSet(version string, caps notify.Caps, policy func(*notify.Policy), rules ...string) set {
	text := `{"version":"` + version + `","policy":{},"rules":[`
	for i, r := range rules {
		if i > 0 {
			text += ","
		}
		text += r
	}
	document := []byte(text + "]}")
	read, faults := rule.Read(document)
	if err := faults.Err(); err != nil {
		panic(err)
	}
	local := notify.Local{Zone: zones[setZone].zone, Morning: 8 * 60}
	for at := quiet.Clock(0); at < 24*60; at += 12 {
		local.Digests = append(local.Digests, at)
	}
	s := set{Set: rule.Compile(read, local)}
	for i := range s.Policy.Types {
		t := &s.Policy.Types[i]
		t.DuplicateWindow, t.Cooldown = min(t.DuplicateWindow, 10*minute), min(t.Cooldown, 3*minute)
	}
	s.Policy.Caps = caps
	policy(&s.Policy)
	s.Policy.Prepare()
	var err error
	if s.oracle, err = notifyoracle.NewSet(s.Set, document); err != nil {
		panic(err)
	}
	return s
}
