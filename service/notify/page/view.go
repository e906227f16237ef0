package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the templates
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/notify/quiet"
	"keyfold/source/httpapi"
)

//go:embed page.html
var pageText string

//go:embed style.css
var styleText string

//go:embed zones.txt
var zoneText string

var templates = template.Must(template.New("").Parse(pageText))

// policy lets a page use its own style and post to its own server, and nothing else.
var policy = func() string {
	digest := sha256.Sum256([]byte(styleText))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) +
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}()

// render answers with a page.
func render(status int, name string, data any) *httpapi.Answer {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, data); err != nil {
		return httpapi.Unavailable("page_failed", "the page could not be made; ask again", err)
	}
	return &httpapi.Answer{Status: status, Page: text.Bytes(), Header: http.Header{"Content-Security-Policy": {policy}}}
}

// head is what each page has.
type head struct{ Title string }

// Style is that of all pages.
func (head) Style() template.CSS { return template.CSS(styleText) } // it is this package's own

// saying is a page of words.
type saying struct {
	head
	Lines []string
	Link  string // to the preferences; "": none
}

// say answers with a page of words.
func say(status int, title string, lines ...string) *httpapi.Answer {
	return render(status, "saying", saying{head{title}, lines, ""})
}

// control is a field, or a choice of one.
type control struct {
	ID, Name, Value, Label string
	Checked                bool
	Fault                  string
	Options                []control
}

// until is a pause of some time.
type until struct {
	Legend, Hint string
	Choice, At   control
}

// topicView is a topic with its channels.
type topicView struct {
	Title    string
	Locked   bool
	Channels []control
	Held     *control
}

// spanView is a row of quiet hours.
type spanView struct {
	Legend   string
	From, To control
	Days     []control
}

// view is the page of preferences.
type view struct {
	head
	Token   string
	Version int64
	Was     string
	Saved   bool
	Newer   bool     // the preferences were changed elsewhere
	Differ  []string // what they have where this form has something else
	Wrong   []control

	Paused       control
	Mute, Snooze until
	Topics       []topicView
	Channels     []control
	Types        []control
	Zone         control
	Zones        []zoneGroup
	UsualZone    string
	Quiet        []spanView
	Digests      []control
	UsualDigests string
}

// zoneGroup is the zones of a continent.
type zoneGroup struct {
	Name  string
	Zones []control
}

// view returns the page of a form. present is what is stored.
func (e *editor) view(v url.Values, present *notify.Preferences, wrong faults) *view {
	zone := e.zone(present.Zone)
	p := &view{
		head:   head{"Notification preferences"},
		Was:    e.fields(present).Encode(),
		Paused: box(fieldPaused, "Pause all notifications", v),
		Mute:   e.untilView(v, wrong, fieldMute, fieldMuteUntil, "Mute", "What comes until then is not sent, and does not come later either."),
		Snooze: e.untilView(v, wrong, fieldSnooze, fieldSnoozeUntil, "Snooze",
			"What comes until then waits, and reaches you after it."),
		UsualZone: e.zone(nil).Name(),
	}
	for i := range e.set.Policy.Topics {
		p.Topics = append(p.Topics, e.topicView(v, wrong, &e.set.Policy.Topics[i], present, zone))
	}
	for _, channel := range notify.Channels {
		one := box(channelField(channel), channelTitles[channel], v)
		one.Fault = wrong[one.Name]
		p.Channels = append(p.Channels, one)
	}
	for _, t := range e.types(present) {
		p.Types = append(p.Types, box(typeField(t), typeTitles[t], v))
	}
	p.Zone = control{ID: idOf(fieldZone), Name: fieldZone, Label: "Time zone", Value: v.Get(fieldZone), Fault: wrong[fieldZone]}
	p.Zones = zoneGroups(v.Get(fieldZone))
	for row := range quiet.MaxSpans {
		one, empty := spanOf(v, wrong, row)
		p.Quiet = append(p.Quiet, one)
		if empty {
			break // one more to fill in
		}
	}
	e.digestViews(p, v, wrong)
	for _, field := range slices.Sorted(func(yield func(string) bool) {
		for field := range wrong {
			if !yield(field) {
				return
			}
		}
	}) {
		p.Wrong = append(p.Wrong, control{ID: idOf(field), Fault: wrong[field]})
	}
	return p
}

// idOf returns the id of a field in the page.
func idOf(field string) string { return "f-" + strings.ReplaceAll(field, ".", "-") }

func box(name, label string, v url.Values) control {
	return control{ID: idOf(name), Name: name, Label: label, Value: checked, Checked: v.Get(name) == checked}
}

func (e *editor) untilView(v url.Values, wrong faults, field, untilField, legend, hint string) until {
	morning := e.set.Local.Morning.String()
	chosen := v.Get(field)
	choice := control{ID: idOf(field), Name: field, Label: "How long"}
	for _, option := range [][2]string{
		{untilNone, "Off"},
		{untilHours, "For 8 hours"},
		{untilMorning, "Until tomorrow, " + morning},
		{untilWeek, "For a week"},
		{untilOther, "Until the time below"},
	} {
		choice.Options = append(choice.Options, control{Value: option[0], Label: option[1], Checked: chosen == option[0]})
	}
	at := control{ID: idOf(untilField), Name: untilField, Label: "Day and time", Value: v.Get(untilField), Fault: wrong[untilField]}
	return until{Legend: legend, Hint: hint, Choice: choice, At: at}
}

func (e *editor) topicView(v url.Values, wrong faults, t *notify.Topic, present *notify.Preferences, zone *quiet.Zone) topicView {
	one := topicView{Title: titleOf(t), Locked: t.Locked}
	if t.Locked {
		return one
	}
	for _, channel := range notify.Channels {
		field := topicField(t, channel)
		c := control{ID: idOf(field), Name: field, Label: channelTitles[channel], Fault: wrong[field]}
		for _, choice := range []notify.Choice{notify.ChoiceOn, notify.ChoiceOff, notify.ChoiceDigest} {
			name := choice.String()
			c.Options = append(c.Options, control{Value: name, Label: choiceTitles[choice], Checked: v.Get(field) == name})
		}
		one.Channels = append(one.Channels, c)
	}
	if p := present.Topics[t.Name]; e.held(p) {
		label := "Snoozed until " + e.told(p.SnoozedUntil, zone)
		if p.MutedUntil > e.now {
			label = "Muted until " + e.told(p.MutedUntil, zone)
		}
		held := box(heldField(t), label, v)
		one.Held = &held
	}
	return one
}

var choiceTitles = map[notify.Choice]string{notify.ChoiceOn: "On", notify.ChoiceOff: "Off", notify.ChoiceDigest: "Summary"}

// told is an instant for people.
func (e *editor) told(at engine.Millis, zone *quiet.Zone) string {
	return at.Time().In(e.location(zone)).Format("Mon 2 Jan 2006, 15:04")
}

// spanOf returns a row of quiet hours, and whether nothing is filled in.
func spanOf(v url.Values, wrong faults, row int) (spanView, bool) {
	one := spanView{Legend: "Quiet hours"}
	if row > 0 {
		one.Legend += " " + strconv.Itoa(row+1)
	}
	field := func(what, label string) control {
		name := quietField(row, what)
		return control{ID: idOf(name), Name: name, Label: label, Value: v.Get(name), Fault: wrong[name]}
	}
	one.From, one.To = field("from", "From"), field("to", "To")
	name := quietField(row, "day")
	for day := range dayTitles {
		value := strconv.Itoa(day + 1)
		one.Days = append(one.Days, control{
			ID: idOf(name) + "-" + value, Name: name, Value: value, Label: dayTitles[day], Checked: slices.Contains(v[name], value),
		})
	}
	return one, one.From.Value == "" && one.To.Value == ""
}

func (e *editor) digestViews(p *view, v url.Values, wrong faults) {
	texts := slices.Clone(v[fieldDigest])
	texts = slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	if len(wrong) > 0 {
		texts = slices.Clone(v[fieldDigest]) // faults are by their places
	}
	if len(texts) < maxDigests && (len(texts) == 0 || texts[len(texts)-1] != "") {
		texts = append(texts, "")
	}
	for i, text := range texts {
		id := fieldDigest + "." + strconv.Itoa(i)
		p.Digests = append(p.Digests, control{ID: idOf(id), Name: fieldDigest, Label: "Time " + strconv.Itoa(i+1), Value: text, Fault: wrong[id]})
	}
	var usual []string
	for _, at := range e.set.Local.Digests {
		usual = append(usual, at.String())
	}
	p.UsualDigests = strings.Join(usual, " and ")
}

// zoneGroups returns all zones, and the chosen one where it is none of them.
func zoneGroups(chosen string) (groups []zoneGroup) {
	names := strings.Fields(zoneText)
	if at, there := slices.BinarySearch(names, chosen); !there && chosen != "" {
		names = slices.Insert(names, at, chosen)
	}
	for _, name := range names {
		continent, city, split := strings.Cut(name, "/")
		if !split {
			continent, city = "Other", name
		}
		at := slices.IndexFunc(groups, func(g zoneGroup) bool { return g.Name == continent })
		if at < 0 {
			at = len(groups)
			groups = append(groups, zoneGroup{Name: continent})
		}
		groups[at].Zones = append(groups[at].Zones, control{
			Value: name, Label: strings.ReplaceAll(city, "_", " "), Checked: name == chosen,
		})
	}
	return groups
}
