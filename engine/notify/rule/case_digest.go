package rule

import (
	"fmt"
	"strconv"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// digestCase is a test case of the texts of a digest's message. What it does not name is
// not compared.
type digestCase struct {
	key            string
	events         []*notify.Notification
	title, message string // "": not compared
	more           int    // -1: not compared
}

func (r *reader) digestCase(n *node, now engine.Millis) *digestCase {
	c := &digestCase{more: -1}
	r.object(n,
		key{"key", true, func(n *node) { c.key = r.string(n, notify.MaxGroupBytes) }},
		key{"events", true, func(n *node) {
			if len(n.items) > notify.MaxDigestItems {
				r.fault(n, "found %d events, a message has at most %d", len(n.items), notify.MaxDigestItems)
			}
			r.list(n, 1, func(n *node) { c.events = append(c.events, r.event(n, now)) })
		}},
		key{"expect", true, func(n *node) {
			r.object(n,
				key{"title", false, func(n *node) { c.title = r.string(n, notify.MaxTitleRunes) }},
				key{"message", false, func(n *node) { c.message = r.string(n, notify.MaxMessageRunes) }},
				key{"more", false, func(n *node) { c.more = r.int(n, 0, notify.MaxDigestItems) }},
			)
			if n.kind == '{' && len(n.members) == 0 {
				r.fault(n, "the case expects nothing: name title, message or more")
			}
		}},
	)
	return c
}

// differences says what of the digest's message is not as expected.
func (c *digestCase) differences(p *notify.Policy) (text string) {
	m, err := p.DigestMessage(c.key, c.events[0].UserID, c.events)
	if err != nil {
		return fmt.Sprintf("the template cannot be used: %v", err)
	}
	compare := func(what, found, expected string) {
		if found != expected {
			text += fmt.Sprintf("; %s: found %s, expected %s", what, found, expected)
		}
	}
	if c.title != "" {
		compare("title", strconv.Quote(m.Title), strconv.Quote(c.title))
	}
	if c.message != "" {
		compare("message", strconv.Quote(m.Message), strconv.Quote(c.message))
	}
	if c.more >= 0 {
		compare("more", strconv.Itoa(m.More), strconv.Itoa(c.more))
	}
	if text == "" {
		return ""
	}
	return text[2:]
}
