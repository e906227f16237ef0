package rule

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"keyfold/engine/notify"
)

// Bounds of limits.
const (
	minWithin  = time.Second
	maxKeyed   = 4 // fields of a limit's key
	maxSources = 64
)

// plainName matches the names of limits and topics.
var plainName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// plainName reads a name that differs from those that are taken.
func (r *reader) plainName(n *node, taken func(string) bool) string {
	if !r.is(n, '"') {
		return ""
	}
	switch {
	case !plainName.MatchString(n.text):
		r.fault(n, "malformed name %q: expected 1 to 64 of a-z, 0-9, _ and -", n.text)
		return ""
	case taken(n.text):
		r.fault(n, "%s is there twice: choose another name", n.text)
		return ""
	}
	return n.text
}

func (r *reader) limits(n *node) (limits []notify.Limit) {
	if len(n.items) > notify.MaxLimits {
		r.fault(n, "found %d limits, expected at most %d", len(n.items), notify.MaxLimits)
	}
	keys := map[string]bool{}
	r.list(n, 0, func(item *node) {
		l := r.limit(item, limits)
		if key := strings.Join(l.Key, "|"); key != "" {
			keys[key] = true
		}
		if len(keys) > notify.MaxKeys && len(l.Key) > 0 {
			r.fault(item.get("key"), "found %d different keys of limits, expected at most %d: use one of the others", len(keys), notify.MaxKeys)
		}
		limits = append(limits, l)
	})
	return limits
}

func (r *reader) limit(n *node, others []notify.Limit) (l notify.Limit) {
	before := len(r.faults)
	r.object(n,
		key{"name", true, func(n *node) {
			l.Name = r.plainName(n, func(name string) bool {
				return slices.ContainsFunc(others, func(o notify.Limit) bool { return o.Name == name })
			})
		}},
		key{"types", false, func(n *node) { l.Of.Types = words(r, n, 1, notify.EventTypes...) }},
		key{"sources", false, func(n *node) { l.Of.Sources = r.sources(n) }},
		key{"channels", false, func(n *node) { l.Of.Channels = words(r, n, 1, notify.Channels...) }},
		key{"key", false, func(n *node) {
			if l.Key = r.digestKey(n); len(l.Key) > maxKeyed {
				r.fault(n, "found %d fields, expected at most %d", len(l.Key), maxKeyed)
			}
		}},
		key{"most", true, func(n *node) { l.Most = r.int(n, 1, notify.MaxCap) }},
		key{"within", true, func(n *node) { l.Within = r.duration(n, minWithin, maxWindow) }},
	)
	if slices.Contains(l.Of.Types, notify.Security) {
		r.warn(n.get("types"), "this limit can hold SECURITY: leave it out, unless that is meant")
	}
	chooses := len(l.Of.Types)+len(l.Of.Sources)+len(l.Of.Channels)+len(l.Key) > 0
	if n.kind == '{' && !chooses && len(r.faults) == before {
		r.fault(n, "the limit is of all that is sent: name types, sources, channels or a key, or use caps")
	}
	return l
}

// sources reads names of services.
func (r *reader) sources(n *node) (sources []string) {
	if len(n.items) > maxSources {
		r.fault(n, "found %d sources, expected at most %d", len(n.items), maxSources)
	}
	r.list(n, 1, func(item *node) {
		switch source := r.string(item, notify.MaxSourceRunes); {
		case source == "":
		case slices.Contains(sources, source):
			r.fault(item, "%s is there twice: remove one", source)
		default:
			sources = append(sources, source)
		}
	})
	return sources
}
