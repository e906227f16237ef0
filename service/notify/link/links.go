package link

import (
	"net/url"
	"strings"
	"time"

	"keyfold/engine"
	"keyfold/engine/cure"
	"keyfold/engine/notify"
	"keyfold/sink/senders/message"
)

// Names of the settings, as faults have them.
const (
	keyFileSetting = cure.Name("link.Settings.KeyFile")
	urlSetting     = cure.Name("link.Settings.URL")
	daysSetting    = cure.Name("link.Settings.Days")
)

// Paths of the pages, behind the address that the settings name.
const (
	PreferencesPath = "/preferences"
	UnsubscribePath = "/unsubscribe"
)

// Settings say where users find their preferences. Both programs embed them.
type Settings struct {
	KeyFile string `name:"link-key-file" env:"NOTIFY_LINK_KEY_FILE" placeholder:"FILE" default:"" help:"File with the key that signs links to preferences, 32 bytes or more; a second line has the key from before." for:"links"`
	URL     string `name:"link-url" env:"NOTIFY_LINK_URL" default:"" help:"Public address of the preferences page, such as https://shop.example/n." for:"links"`
	Days    int    `name:"link-days" env:"NOTIFY_LINK_DAYS" default:"60" help:"Days for which a link can be used." for:"links"`
}

// On reports whether there are links.
func (s *Settings) On() bool { return s.KeyFile != "" && s.URL != "" }

const maxDays = 3650

// Check judges the settings and reads the keys.
func (s *Settings) Check() error {
	_, err := s.Links(nil)
	return err
}

// Links returns what makes and reads links; nil: the settings name none. sets tell which
// topics are locked; nil: none is known to be.
func (s *Settings) Links(sets notify.Sets) (*Links, error) {
	var faults engine.Faults
	// No fault shows the address: it might hold a password.
	faults.If(s.KeyFile == "" && s.URL != "", "%s is not set, and %s is: set both, or none for no links to preferences", keyFileSetting, urlSetting)
	faults.If(s.KeyFile != "" && s.URL == "", "%s is not set, and %s is: set both, or none for no links to preferences", urlSetting, keyFileSetting)
	faults.If(s.Days < 1 || s.Days > maxDays, "%s is %d: it must be from 1 to %d", daysSetting, s.Days, maxDays)
	u, err := url.Parse(s.URL)
	faults.If(s.URL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil),
		"%s must be an address such as https://shop.example/n, without a user, a query and a fragment", urlSetting)
	var keys *Keys
	if s.KeyFile != "" {
		keys, err = ReadKeys(s.KeyFile)
		faults.If(err != nil, "%s: %w", keyFileSetting, err)
	}
	if err := faults.Err(); err != nil {
		return nil, engine.ConfigurationError("notify_links", err)
	}
	if !s.On() {
		return nil, nil
	}
	return &Links{Keys: keys, base: strings.TrimRight(s.URL, "/"), origin: u.Scheme + "://" + u.Host, life: time.Duration(s.Days) * 24 * time.Hour, sets: sets}, nil
}

// Links makes the links of messages.
type Links struct {
	*Keys
	base, origin string
	life         time.Duration
	sets         notify.Sets
}

// Origin is that of the pages, as a browser names it.
func (l *Links) Origin() string { return l.origin }

// Link returns the address of a grant.
func (l *Links) Link(g Grant) string {
	path := PreferencesPath
	if g.Purpose == Unsubscribe {
		path = UnsubscribePath
	}
	return l.base + path + "?t=" + l.Token(g)
}

// Links implements [message.Linker]. A message that is sent again has the same links. There
// is an unsubscribe link where all of it is of one topic, or of one type without a topic, and
// the user may turn that off.
func (l *Links) Links(d *notify.Dispatch) *message.Links {
	first, decided := &d.Records[0], engine.Millis(0)
	for i := range d.Records { // which may come in another order
		decided = max(decided, d.Records[i].DecidedAt)
	}
	g := Grant{Purpose: Preferences, User: first.UserID, Expires: decided + engine.Millis(l.life/time.Millisecond)}
	links := &message.Links{Preferences: l.Link(g)}
	if !l.mayUnsubscribe(d.Records) {
		return links
	}
	g.Purpose = Unsubscribe
	if g.Topic = first.Facts.Topic; g.Topic != "" {
		g.Channel = notify.Email
	} else {
		g.Type = first.Type
	}
	links.Unsubscribe = l.Link(g)
	return links
}

func (l *Links) mayUnsubscribe(records []notify.Record) bool {
	first := &records[0]
	topic := first.Facts.Topic
	for i := range records {
		r := &records[i]
		if r.Type == notify.Security || r.Facts.Topic != topic || topic == "" && r.Type != first.Type {
			return false
		}
	}
	return topic == "" || !l.locked(topic)
}

func (l *Links) locked(name string) bool {
	if l.sets == nil {
		return false
	}
	set := l.sets.Current()
	if set == nil {
		return false
	}
	t := TopicNamed(&set.Policy, name)
	return t != nil && t.Locked
}

// TopicNamed returns the topic of a name, nil where the policy has none.
func TopicNamed(p *notify.Policy, name string) *notify.Topic {
	for i := range p.Topics {
		if p.Topics[i].Name == name {
			return &p.Topics[i]
		}
	}
	return nil
}
