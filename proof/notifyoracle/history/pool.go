package history

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/proof/notifyoracle"
)

// zoneNames are zones with every habit: no change at all, changes by 30 min and by 2 h, at
// midnight, on another weekday, offsets that are no full hours, either hemisphere.
var zoneNames = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Africa/Cairo",
	"America/Santiago", "Asia/Kathmandu", "Pacific/Apia", "Asia/Kolkata", "America/St_Johns", "Pacific/Chatham",
	"Africa/Casablanca", "Asia/Tehran", "Asia/Beirut", "America/Havana", "Pacific/Kiritimati", "America/Asuncion",
}

// place is a zone and the instants of 2020 to 2030 at which its clock changes.
type place struct {
	zone    *quiet.Zone
	changes []engine.Millis
}

// places lists the zones.
func places() ([]place, error) {
	var all []place
	for _, name := range zoneNames {
		z, err := quiet.LoadZone(name)
		if err != nil {
			return nil, err
		}
		location, err := time.LoadLocation(name)
		if err != nil {
			return nil, err
		}
		all = append(all, place{z, changesOf(location)})
	}
	return all, nil
}

// changesOf finds the changes, of which no day has two, to the minute.
func changesOf(l *time.Location) (changes []engine.Millis) {
	const day = 24 * 60
	offset := func(t time.Time) int { _, o := t.In(l).Zone(); return o }
	end := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	for t := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC); t.Before(end); t = t.Add(day * time.Minute) {
		minutes := sort.Search(day, func(m int) bool { return offset(t.Add(time.Duration(m+1)*time.Minute)) != offset(t) })
		if minutes < day {
			changes = append(changes, engine.MillisOf(t)+engine.Millis(minutes+1)*60_000)
		}
	}
	return changes
}

// metadataTexts are the metadata that events bring along; "" for none.
var metadataTexts = []string{
	"", "", "", "", `{}`,
	`{"order_id":"1001"}`, `{"order_id":"1002"}`, `{"order_id":1001}`,
	`{"amount":12.5}`, `{"amount":12.50,"vip":true}`, `{"amount":"12.5","vip":"true"}`, `{"amount":1e2}`, `{"amount":-0.5}`,
	`{"amount":100.0,"vip":false}`, `{"amount":0.1}`, `{"amount":9007199254740993}`, `{"amount":null,"vip":null}`,
	`{"order":{"id":7,"item":{"count":3}}}`, `{"order":{"id":"7","item":{"count":12}}}`, `{"order":[1,2]}`,
	`{"tags":["vip","x",1,null]}`, `{"tags":"vip"}`, `{"at":"2024-06-01"}`, `{"at":"2025-06-01T08:00:00Z","order_id":"1001"}`, `{"at":"soon"}`,
	`{"thread_id":"t1","vip":true}`, `{"thread_id":"t2"}`,
	`{"timezone":"America/New_York"}`, `{"timezone":"Antarctica/Troll"}`, `{"timezone":"No/Where"}`, `{"timezone":5}`, `{"timezone":""}`, `{"timezone":"Local"}`,
}

// metadata is one metadata in the forms of both sides.
type metadata struct {
	body     []byte // a body with nothing else
	large    []byte // the same, as long as a body may be: few of them fill a digest's message
	theirs   notify.Metadata
	object   map[string]any
	identity []string
}

// identityPaths are the metadata that are part of what an event says.
var identityPaths = []string{"order_id", "thread_id", "entity_id"}

func metadatas() ([]metadata, error) {
	var all []metadata
	for _, text := range metadataTexts {
		if text == "" {
			all = append(all, metadata{body: []byte(`{}`), large: padded(`{}`), identity: make([]string, len(identityPaths))})
			continue
		}
		body := fmt.Sprintf(`{"event_id":"%v","user_id":"u","event_type":"UPDATE","title":"t","source":"s","channel":["push"],"timestamp":"2026-01-01T00:00:00Z","metadata":%s}`,
			uuid.NameSpaceDNS, text)
		parsed, err := notify.Parse([]byte(body), engine.MillisOf(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text, err)
		}
		body = `{"metadata":` + text + `}`
		m := metadata{body: []byte(body), large: padded(body), theirs: parsed.Metadata}
		if m.object, err = notifyoracle.ReadObject([]byte(text)); err != nil {
			return nil, err
		}
		for _, path := range identityPaths {
			m.identity = append(m.identity, parsed.Metadata.Get(path).Text)
		}
		all = append(all, m)
	}
	return all, nil
}

func padded(body string) []byte { return fmt.Appendf(nil, "%-*s", notify.MaxBodyBytes, body) }

// attributeTexts are what a shop knows of users.
var attributeTexts = []string{
	`null`, `null`, `{"plan":"pro","segments":["vip","new"]}`, `{"plan":"free","age":18,"since":"2024-05-31"}`, `{"plan":null,"age":"30","segments":[]}`,
	`{"plan":"Order","age":30.0,"since":"2025-06-01T10:00:00.000+02:00","segments":"vip"}`,
}

func attributes() (all []notify.Attributes, err error) {
	for _, text := range attributeTexts {
		var a notify.Attributes
		if err := a.UnmarshalJSON([]byte(text)); err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// texts are titles and messages: equal ones, rewordings, ones that differ in a number.
var texts = [][2]string{
	{"Order 1001 shipped", ""},
	{"Order 1002 shipped", ""},
	{"order  1001   SHIPPED", ""},
	{"Order 1001 shipped", "Your parcel is on its way and arrives on Friday between ten and noon."},
	{"Summer sale", "All shoes and bags are now thirty percent off until Sunday evening, in every shop and online."},
	{"Summer sale", "All shoes and bags are thirty percent off until Sunday night, in every shop and online."},
	{"Summer sale", "All shoes and bags are now thirty percent off until Sunday evening, in every shop and online today."},
	{"Winter sale", "Coats, scarves and gloves for the price of last year, only this week."},
	{"Your basket misses you", "Three things wait in your basket. Come back and finish your order before they are gone."},
	{"Your basket misses you", "Three things wait in your basket. Come back and finish the order before they are gone."},
	{"Your code is 123456", ""},
	{"Your code is 654321", ""},
	{"New message from Anna", "See you at eight?"},
	{"New message from Anna", "Running late, sorry."},
	{"Price drop", "The lamp that you liked costs 39.90 now."},
	{"Price drop", "The lamp that you liked costs 29.90 now."},
}

// printKey names a fingerprint that was made before.
type printKey struct {
	kind     notify.EventType
	text     int
	metadata string // its identity
	key      string
}

func identityOf(m *metadata) string { return strings.Join(m.identity, "\x00") }

var dedupeKeys = []string{"", "", "", "k1", "k2"}

// channelsOf returns some channels in some order.
func (g *rng) channels(least int) []notify.Channel {
	all := slices.Clone(notify.Channels)
	g.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:least+g.IntN(len(all)+1-least)]
}
