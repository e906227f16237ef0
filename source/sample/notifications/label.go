package notifications

import (
	"github.com/google/uuid"

	"keyfold/engine"
)

// labels remembers what came, to label what comes. The drafts are added by time.
type labels map[any]*latest

// latest is the newest event about a thing, of a content or of a topic.
type latest struct {
	at        engine.Millis
	thing, id uuid.UUID
}

// topic is a template to one user.
type topic struct {
	user int32
	kind kind
}

const window = engine.Millis(24 * 60 * 60 * 1000)

// content is all of an event that a reader, or a link behind it, can tell apart.
type content struct {
	topic
	title, message, about string
}

func (l labels) add(d *draft, e *Event) {
	e.Label = Label{Thing: e.ID, Topic: services[d.kind].name}
	topic := topic{d.to.id, d.kind}
	content := content{topic: topic, title: e.Title, message: e.Message}
	if e.Identity != nil {
		content.about = e.Identity[0]
	}
	recent := func(key any) *latest {
		if is := l[key]; is != nil && d.at-is.at < window {
			return is
		}
		return nil
	}
	same, equal, like := recent(d.thing()), recent(content), recent(topic)
	if same == nil {
		same = equal
	}
	switch {
	case same == nil && like != nil:
		e.Label.Kind, e.Label.Of = Distinct, like.id
	case same != nil && equal != nil:
		e.Label.Kind, e.Label.Of, e.Label.Thing = Copy, equal.id, same.thing
	case same != nil:
		e.Label.Kind, e.Label.Of, e.Label.Thing, e.Label.Edit = Reworded, same.id, same.thing, d.edit
	}
	is := &latest{d.at, e.Label.Thing, e.ID}
	l[d.thing()], l[content], l[topic] = is, is, is
}
