package page

import (
	"maps"
	"net/http"
	"slices"

	"keyfold/engine/notify"
	"keyfold/service/notify/link"
	"keyfold/service/notify/preference"
	"keyfold/sink/ledger"
	"keyfold/source/httpapi"
)

// The fields of the form of one click: RFC 8058, section 3.1, has the first one.
const (
	fieldOneClick = "List-Unsubscribe"
	oneClick      = "One-Click"
	fieldUndo     = "undo"
)

// unsubscribed is the page of one topic.
type unsubscribed struct {
	head
	Token, What string
	Done        bool
}

// unsubscribe shows the page of one topic, or turns it off or on again. A GET changes nothing:
// scanners of mail follow links. A POST comes from any site, because mail providers send it.
func (p *Pages) unsubscribe(r *httpapi.Request, post bool) *httpapi.Answer {
	token := r.URL.Query().Get("t")
	var undo bool
	if post {
		fields, refused := r.Form(maxForm)
		if refused != nil {
			return p.InWords(refused)
		}
		if undo = fields.Get(fieldUndo) != ""; !undo && fields.Get(fieldOneClick) != oneClick {
			return say(http.StatusBadRequest, "Nothing was changed", "The request has to say "+fieldOneClick+"="+oneClick+".", "Open the link from the message again.")
		}
	}
	v, refused := p.open(token, link.Unsubscribe)
	if refused != nil {
		return refused
	}
	what, locked := v.what()
	if locked {
		status := http.StatusOK
		if post {
			status = http.StatusConflict
		}
		return say(status, "This cannot be turned off", what+" are always sent, because you need them to use your account.")
	}
	page := unsubscribed{head: head{"Unsubscribe"}, Token: token, What: what}
	stored, refused := p.read(r, v.User)
	if refused != nil {
		return refused
	}
	page.Done = v.off(&stored.Own)
	if post {
		if _, err := preference.Change(r.Context(), p.store, v.User, ledger.AnyVersion, func(own notify.Preferences) (notify.Preferences, error) {
			return v.turned(own, !undo), nil
		}); err != nil {
			return failed(err)
		}
		page.Done = !undo
	}
	switch {
	case undo:
		page.Title = "Subscribed again"
	case page.Done:
		page.Title = "You are unsubscribed"
	}
	return render(http.StatusOK, "unsubscribe", page)
}

// what says what a token turns off.
func (v *visit) what() (text string, locked bool) {
	if v.Topic == "" {
		return typeTitles[v.Type], v.Type == notify.Security || typeTitles[v.Type] == ""
	}
	t := link.TopicNamed(&v.set.Policy, v.Topic)
	if t == nil {
		t = &notify.Topic{Name: v.Topic}
	}
	if t.Locked {
		return titleOf(t), true
	}
	if v.Channel == notify.Email {
		return titleOf(t) + " by email", false
	}
	return titleOf(t) + " (" + channelTitles[v.Channel] + ")", false
}

// off reports whether it is turned off.
func (v *visit) off(own *notify.Preferences) bool {
	if v.Topic == "" {
		return slices.Contains(own.Muted, v.Type)
	}
	return own.Topics[v.Topic].Channels[v.Channel] == notify.ChoiceOff
}

// turned returns preferences with it turned off or on. What is so already stays as it is.
func (v *visit) turned(own notify.Preferences, off bool) notify.Preferences {
	if v.off(&own) == off {
		return own
	}
	if v.Topic == "" {
		if off {
			own.Muted = append(slices.Clip(own.Muted), v.Type)
		} else {
			own.Muted = slices.DeleteFunc(slices.Clone(own.Muted), func(t notify.EventType) bool { return t == v.Type })
		}
		return own
	}
	topics := make(map[string]notify.TopicPreference, len(own.Topics)+1)
	for name, p := range own.Topics {
		topics[name] = p
	}
	p := topics[v.Topic]
	p.Channels[v.Channel] = notify.ChoiceOn
	if off {
		p.Channels[v.Channel] = notify.ChoiceOff
	}
	topics[v.Topic] = p
	v.forgetFormer(topics)
	own.Topics = topics
	return own
}

// forgetFormer leaves names out that are no topics of the set any more, where there are more
// topics than preferences may have.
func (v *visit) forgetFormer(topics map[string]notify.TopicPreference) {
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		if len(topics) > notify.MaxTopics && name != v.Topic && link.TopicNamed(&v.set.Policy, name) == nil {
			delete(topics, name)
		}
	}
}
