package page

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

// editor reads and shows a form.
type editor struct {
	set *notify.Set
	now engine.Millis
}

// Names of fields. Others have a topic, a channel, a type or a number in them.
const (
	fieldPaused      = "paused"
	fieldMute        = "mute"
	fieldMuteUntil   = "mute_until"
	fieldSnooze      = "snooze"
	fieldSnoozeUntil = "snooze_until"
	fieldZone        = "zone"
	fieldDigest      = "digest"
	fieldVersion     = "version"
	fieldWas         = "was"
)

func topicField(t *notify.Topic, c notify.Channel) string {
	return "topic." + t.Name + "." + c.String()
}
func heldField(t *notify.Topic) string       { return "held." + t.Name }
func channelField(c notify.Channel) string   { return "channel." + c.String() }
func typeField(t notify.EventType) string    { return "type." + t.String() }
func quietField(row int, what string) string { return "quiet." + strconv.Itoa(row) + "." + what }

// checked is the value of a box that is.
const checked = "on"

// Choices of a pause of some time.
const (
	untilNone    = "none"
	untilHours   = "8h"
	untilMorning = "morning"
	untilWeek    = "week"
	untilOther   = "until"
)

const localLayout = "2006-01-02T15:04" // of datetime-local

// topics returns those that a user can choose channels of.
func (e *editor) topics() (all []*notify.Topic) {
	for i := range e.set.Policy.Topics {
		if t := &e.set.Policy.Topics[i]; !t.Locked {
			all = append(all, t)
		}
	}
	return all
}

// types returns those that a user can turn on and off: all where there are no topics, else
// those that are off.
func (e *editor) types(own *notify.Preferences) (all []notify.EventType) {
	for _, t := range notify.EventTypes {
		if t != notify.Security && (len(e.set.Policy.Topics) == 0 || slices.Contains(own.Muted, t)) {
			all = append(all, t)
		}
	}
	return all
}

// location is where a user's times are.
func (e *editor) location(zone *quiet.Zone) *time.Location {
	location, err := time.LoadLocation(e.zone(zone).Name())
	if err != nil {
		return time.UTC // of a zone that was loaded: it cannot fail
	}
	return location
}

func (e *editor) zone(own *quiet.Zone) *quiet.Zone {
	return cmp.Or(own, e.set.Local.Zone, quiet.UTC)
}

// fields returns preferences as a form has them.
func (e *editor) fields(own *notify.Preferences) url.Values {
	v := url.Values{}
	box := func(name string, on bool) {
		if on {
			v.Set(name, checked)
		}
	}
	box(fieldPaused, own.Paused)
	for _, channel := range notify.Channels {
		box(channelField(channel), len(own.Channels) == 0 || slices.Contains(own.Channels, channel))
	}
	for _, t := range e.types(own) {
		box(typeField(t), !slices.Contains(own.Muted, t))
	}
	for _, t := range e.topics() {
		p := own.Topics[t.Name]
		for _, channel := range notify.Channels {
			v.Set(topicField(t, channel), cmp.Or(p.Channels[channel], notify.ChoiceOn).String())
		}
		box(heldField(t), e.held(p))
	}
	e.until(v, fieldMute, fieldMuteUntil, own.MutedUntil, own.Zone)
	e.until(v, fieldSnooze, fieldSnoozeUntil, own.SnoozedUntil, own.Zone)
	if own.Zone != nil {
		v.Set(fieldZone, own.Zone.Name())
	}
	for _, at := range own.Digests {
		v.Add(fieldDigest, at.String())
	}
	for i, span := range own.Quiet {
		v.Set(quietField(i, "from"), span.From.String())
		v.Set(quietField(i, "to"), (span.To % (24 * 60)).String())
		for day := range dayNames {
			if span.Days != 0 && span.Days.Has(day+1) {
				v.Add(quietField(i, "day"), strconv.Itoa(day+1))
			}
		}
	}
	return v
}

// held reports whether a topic is muted or snoozed now.
func (e *editor) held(p notify.TopicPreference) bool {
	return p.MutedUntil > e.now || p.SnoozedUntil > e.now
}

func (e *editor) until(v url.Values, field, untilField string, at engine.Millis, zone *quiet.Zone) {
	v.Set(field, untilNone)
	if at > e.now {
		v.Set(field, untilOther)
		v.Set(untilField, at.Time().In(e.location(zone)).Format(localLayout))
	}
}

// faults are texts by the fields that they are about.
type faults map[string]string

// apply returns preferences with what a form says of them. What the form does not show, such
// as attributes and caps, stays.
func (e *editor) apply(v url.Values, stored *notify.Preferences) (notify.Preferences, faults) {
	own, wrong := *stored, faults{}
	own.Paused = v.Get(fieldPaused) == checked
	e.applyChannels(v, &own, wrong)
	e.applyTypes(v, &own)
	e.applyTopics(v, &own, wrong)
	e.applyZone(v, &own, wrong)
	own.MutedUntil = e.applyUntil(v, fieldMute, fieldMuteUntil, stored.MutedUntil, stored.Zone, own.Zone, wrong)
	own.SnoozedUntil = e.applyUntil(v, fieldSnooze, fieldSnoozeUntil, stored.SnoozedUntil, stored.Zone, own.Zone, wrong)
	applyDigests(v, &own, wrong)
	applyQuiet(v, &own, wrong)
	return own, wrong
}

func (e *editor) applyChannels(v url.Values, own *notify.Preferences, wrong faults) {
	var all []notify.Channel
	for _, channel := range notify.Channels {
		if v.Get(channelField(channel)) == checked {
			all = append(all, channel)
		}
	}
	switch {
	case len(all) == 0:
		wrong[channelField(notify.Channels[0])] = "Choose at least one way to reach you, or pause all notifications."
	case len(all) == len(notify.Channels):
		own.Channels = nil
	case !slices.Equal(all, slices.Sorted(slices.Values(own.Channels))):
		own.Channels = all
	}
}

func (e *editor) applyTypes(v url.Values, own *notify.Preferences) {
	var muted []notify.EventType
	shown := e.types(own)
	for _, t := range notify.EventTypes {
		if slices.Contains(shown, t) && v.Get(typeField(t)) != checked {
			muted = append(muted, t)
		}
	}
	own.Muted = muted
}

func (e *editor) applyTopics(v url.Values, own *notify.Preferences, wrong faults) {
	all := maps.Clone(own.Topics)
	if all == nil {
		all = map[string]notify.TopicPreference{}
	}
	for _, t := range e.topics() {
		p := all[t.Name]
		for _, channel := range notify.Channels {
			field := topicField(t, channel)
			switch word := v.Get(field); word {
			case "": // the page was made before there was the topic
			case cmp.Or(p.Channels[channel], notify.ChoiceOn).String():
			case notify.ChoiceOn.String():
				p.Channels[channel] = 0
			case notify.ChoiceOff.String():
				p.Channels[channel] = notify.ChoiceOff
			case notify.ChoiceDigest.String():
				p.Channels[channel] = notify.ChoiceDigest
			default:
				wrong[field] = "Choose on, off or digest."
			}
		}
		if e.held(p) && v.Get(heldField(t)) != checked {
			p.MutedUntil, p.SnoozedUntil = 0, 0
		}
		if all[t.Name] = p; p == (notify.TopicPreference{}) {
			delete(all, t.Name)
		}
	}
	if own.Topics = all; len(all) == 0 {
		own.Topics = nil
	}
	if len(all) > notify.MaxTopics {
		wrong[fieldPaused] = fmt.Sprintf("Choices can be kept for %d topics.", notify.MaxTopics)
	}
}

func (e *editor) applyZone(v url.Values, own *notify.Preferences, wrong faults) {
	name := v.Get(fieldZone)
	if name == "" {
		own.Zone = nil
		return
	}
	zone, err := quiet.LoadZone(name)
	if err != nil {
		wrong[fieldZone] = "Choose a time zone from the list."
		return
	}
	own.Zone = zone
}

// applyUntil returns the instant that a choice comes to.
func (e *editor) applyUntil(v url.Values, field, untilField string, stored engine.Millis, storedZone, zone *quiet.Zone, wrong faults) engine.Millis {
	location := e.location(zone)
	now := e.now.Time().In(location)
	switch v.Get(field) {
	case untilHours:
		return engine.MillisOf(now.Add(8 * time.Hour))
	case untilMorning:
		morning := int(e.set.Local.Morning)
		return engine.MillisOf(time.Date(now.Year(), now.Month(), now.Day()+1, morning/60, morning%60, 0, 0, location))
	case untilWeek:
		return engine.MillisOf(now.AddDate(0, 0, 7))
	case untilOther:
		text := v.Get(untilField)
		if stored != 0 && text == stored.Time().In(e.location(storedZone)).Format(localLayout) {
			return stored
		}
		at, err := time.ParseInLocation(localLayout, text, location)
		switch {
		case err != nil:
			wrong[untilField] = "Give the day and the time, such as 2026-02-10 08:00."
		case engine.MillisOf(at) <= e.now:
			wrong[untilField] = "Give a time that is still to come."
		case at.After(now.AddDate(10, 0, 0)):
			wrong[untilField] = "Give a time of the next ten years, or pause all notifications."
		}
		return engine.MillisOf(at)
	default:
		return 0
	}
}

const maxDigests = 24

func applyDigests(v url.Values, own *notify.Preferences, wrong faults) {
	var all []quiet.Clock
	for i, text := range v[fieldDigest] {
		if text == "" {
			continue
		}
		at, err := quiet.ParseClock(text)
		if err != nil || at >= 24*60 {
			wrong[fieldDigest+"."+strconv.Itoa(i)] = "Give a time such as 18:00."
			continue
		}
		all = append(all, at)
	}
	slices.Sort(all)
	if own.Digests = slices.Compact(all); len(own.Digests) > maxDigests {
		wrong[fieldDigest+".0"] = fmt.Sprintf("Give at most %d times.", maxDigests)
	}
}

func applyQuiet(v url.Values, own *notify.Preferences, wrong faults) {
	var all quiet.Hours
	for row := range quiet.MaxSpans {
		from, to := v.Get(quietField(row, "from")), v.Get(quietField(row, "to"))
		if from == "" && to == "" {
			continue
		}
		var span quiet.Span
		for field, text := range map[string]string{"from": from, "to": to} {
			at, err := quiet.ParseClock(text)
			if err != nil {
				wrong[quietField(row, field)] = "Give both times, such as 22:00 and 07:00, or leave both empty."
			}
			if field == "from" {
				span.From = at % (24 * 60)
			} else {
				span.To = at
			}
		}
		if span.To == 0 && (span.From == 0 || row < len(own.Quiet) && own.Quiet[row].To == 24*60) {
			span.To = 24 * 60
		}
		for _, text := range v[quietField(row, "day")] {
			if day, err := strconv.Atoi(text); err == nil && day >= 1 && day <= 7 {
				span.Days |= 1 << day
			}
		}
		const everyDay = 0xfe
		if span.Days == everyDay && (row >= len(own.Quiet) || own.Quiet[row].Days != everyDay) {
			span.Days = 0
		}
		all = append(all, span)
	}
	if err := all.Validate(); err != nil && len(wrong) == 0 {
		text, _, _ := strings.Cut(err.Error(), "\n")
		wrong[quietField(0, "from")] = "The quiet hours cannot be kept: " + text + "."
	}
	own.Quiet = all
}

var dayNames = [...]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}

var dayTitles = [...]string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
