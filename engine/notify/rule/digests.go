package rule

import (
	"keyfold/engine/notify"
)

// maxDigests bounds the keys that have texts of their own.
const maxDigests = 64

// readDigests reads the texts of digests. What those of a key leave out is as the others'.
func (r *reader) readDigests(n *node) map[string]notify.DigestPolicy {
	var others notify.DigestPolicy
	var keys *node
	r.object(n, append(r.digestKeys(&others), key{"keys", false, func(n *node) { keys = n }})...)
	digests := map[string]notify.DigestPolicy{"": others}
	if keys == nil || !r.is(keys, '{') {
		return digests
	}
	if len(keys.members) > maxDigests {
		r.fault(keys, "found %d keys, expected at most %d", len(keys.members), maxDigests)
	}
	for _, m := range keys.members {
		if m.name == "" || len(m.name) > notify.MaxGroupBytes {
			r.fault(m.value, "found a key of %d bytes, expected 1 to %d: keys are names of topics or types, or values of a rule's digest_key",
				len(m.name), notify.MaxGroupBytes)
		}
		d := others
		r.object(m.value, r.digestKeys(&d)...)
		digests[m.name] = d
	}
	return digests
}

// digestKeys are the keys of the texts of digests.
func (r *reader) digestKeys(d *notify.DigestPolicy) []key {
	text := func(to **notify.Template, parse func(string) (*notify.Template, error)) func(*node) {
		return func(n *node) {
			if !r.is(n, '"') {
				return
			}
			t, err := parse(n.text)
			if err != nil {
				r.fault(n, "%v", err)
				return
			}
			*to = t
		}
	}
	return []key{
		{"show", false, func(n *node) { d.Show = r.int(n, 1, notify.MaxDigestItems) }},
		{"title", false, text(&d.Title, notify.ParseTitle)},
		{"message", false, text(&d.Message, notify.ParseMessage)},
	}
}
