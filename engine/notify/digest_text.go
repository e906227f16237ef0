package notify

// DigestMessage is what the message of a digest says.
type DigestMessage struct {
	Key     string `json:"key"`
	Title   string `json:"title,omitzero"` // "": the set has no template for it, as for Message
	Message string `json:"message,omitzero"`
	Show    int    `json:"show"`          // so many of the items are shown, the first ones
	More    int    `json:"more,omitzero"` // the others
}

// DigestPolicyOf returns the texts of the digests of a key.
func (p *Policy) DigestPolicyOf(key string) DigestPolicy {
	if d, ok := p.Digests[key]; ok {
		return d
	}
	return p.Digests[""]
}

// DigestMessage makes the texts of a digest's message of its items, in their order. An
// error is of a template that no sample has shown; the numbers are there even so.
func (p *Policy) DigestMessage(key, user string, items []*Notification) (m DigestMessage, err error) {
	policy := p.DigestPolicyOf(key)
	m.Key, m.Show = key, len(items)
	if policy.Show > 0 {
		m.Show = min(m.Show, policy.Show)
	}
	m.More = len(items) - m.Show
	d := DigestText{Key: key, User: user, Count: len(items), More: m.More}
	for _, item := range items[:m.Show] {
		d.Items = append(d.Items, DigestItemOf(item))
	}
	if policy.Title != nil {
		if m.Title, err = policy.Title.Make(d); err != nil {
			return m, err
		}
	}
	if policy.Message != nil {
		m.Message, err = policy.Message.Make(d)
	}
	return m, err
}
