package ruleset

import (
	"strings"
	_ "time/tzdata" // zones also where the system has none

	"keyfold/engine"
	"keyfold/engine/cure"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
)

// Hours are the settings of the hours of users who have none of their own.
type Hours struct {
	Zone    string `name:"zone" env:"NOTIFY_ZONE" default:"UTC" help:"Time zone of users who have none, such as Europe/Berlin." for:"rules"`
	Morning string `name:"morning" env:"NOTIFY_MORNING" default:"08:00" help:"Local time to which next_morning defers." for:"rules"`
	Digests string `name:"digest-times" env:"NOTIFY_DIGEST_TIMES" default:"09:00,18:00" help:"Local times of digests." for:"rules"`
}

// What faults of the hours name.
const (
	zoneSetting    cure.Name = "ruleset.Hours.Zone"
	morningSetting cure.Name = "ruleset.Hours.Morning"
	digestsSetting cure.Name = "ruleset.Hours.Digests"
)

// Local reads the settings; the error names every fault.
func (h *Hours) Local() (l notify.Local, err error) {
	var faults engine.Faults
	l.Zone, err = quiet.LoadZone(h.Zone)
	faults.If(err != nil, "%s is %q: %w", zoneSetting, h.Zone, err)
	l.Morning, err = quiet.ParseClock(h.Morning)
	faults.If(err != nil, "%s is %q: %w", morningSetting, h.Morning, err)
	for text := range strings.SplitSeq(h.Digests, ",") {
		clock, err := quiet.ParseClock(strings.TrimSpace(text))
		faults.If(err != nil, "%s is %q: %w", digestsSetting, h.Digests, err)
		faults.If(err == nil && len(l.Digests) > 0 && clock <= l.Digests[len(l.Digests)-1],
			"%s is %q: each time must be later than the one before", digestsSetting, h.Digests)
		l.Digests = append(l.Digests, clock)
	}
	return l, faults.Err()
}

// Set reads and compiles the set of rules of a file, as [Read] does, for users of these
// hours.
func (h *Hours) Set(path string) (*notify.Set, error) {
	local, err := h.Local()
	if err != nil {
		return nil, err
	}
	return Read(path, local)
}
