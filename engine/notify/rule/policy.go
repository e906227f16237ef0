package rule

import (
	"math"
	"slices"
	"sync"
	"time"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Bounds of a policy.
const (
	maxWindow   = time.Duration(notify.MaxHorizon) * time.Millisecond // of cooldowns and duplicates
	maxHalfLife = 365 * 24 * time.Hour
	maxWeight   = 1000
	maxIdentity = 16
)

// windowNames are the keys of caps, by the index of [notify.Windows].
var windowNames = [...]string{"5m", "1h", "24h"}

// defaultPolicy returns the policy of the shipped set, of which each figure is the
// default of other sets. Limits, topics, channels, texts of digests, other_channels and
// when_capped are no part of it: a set that names none has none, as it had before there were
// any.
var defaultPolicy = sync.OnceValue(func() (p notify.Policy) {
	r := &reader{}
	if root := r.parse(Default()); root != nil {
		r.policy(root.get("policy"), &p)
	}
	if err := r.faults.Err(); err != nil {
		panic(err) // a test reads the shipped set
	}
	p.Limits, p.Topics, p.Awake, p.Digests = nil, nil, 0, nil
	for i := range p.Types {
		p.Types[i].OthersLater, p.Types[i].CappedToDigest = false, false
	}
	return p
})

// policy reads what a document says of a policy over p, which has the defaults.
func (r *reader) policy(n *node, p *notify.Policy) {
	r.object(n,
		key{"types", false, func(n *node) {
			keys := make([]key, len(notify.EventTypes))
			for i, t := range notify.EventTypes {
				keys[i] = key{t.String(), false, func(n *node) { r.typePolicy(n, t, &p.Types[t]) }}
			}
			r.object(n, keys...)
		}},
		key{"caps", false, func(n *node) { r.caps(n, &p.Caps) }},
		key{"identity", false, func(n *node) { p.Identity = r.identity(n) }},
		key{"score", false, func(n *node) { r.score(n, &p.Score) }},
		key{"limits", false, func(n *node) { p.Limits = r.limits(n) }},
		key{"topics", false, func(n *node) { p.Topics = r.readTopics(n) }},
		key{"channels", false, func(n *node) { p.Awake = r.awake(n) }},
		key{"digests", false, func(n *node) { p.Digests = r.readDigests(n) }},
	)
	p.Prepare()
	r.topics = p.Topics
	r.marks(n, p)
}

// caps reads caps by the names of their windows.
func (r *reader) caps(n *node, c *notify.Caps) {
	keys := make([]key, len(windowNames))
	for i, name := range windowNames {
		keys[i] = key{name, false, func(n *node) { c[i] = r.int(n, 1, notify.MaxCap) }}
	}
	r.object(n, keys...)
}

func (r *reader) typePolicy(n *node, t notify.EventType, p *notify.TypePolicy) {
	flag := func(to *bool) func(*node) { return func(n *node) { *to = r.bool(n) } }
	span := func(to *engine.Millis, least, most time.Duration) func(*node) {
		return func(n *node) { *to = r.duration(n, least, most) }
	}
	r.object(n,
		key{"duplicate_window", false, span(&p.DuplicateWindow, 0, maxWindow)},
		key{"duplicates_by_key_only", false, flag(&p.ByKeyOnly)},
		key{"near_duplicates", false, flag(&p.Near)},
		key{"capped", false, flag(&p.Capped)},
		key{"cooldown", false, span(&p.Cooldown, 0, maxWindow)},
		key{"quiet_hours", false, flag(&p.Quiet)},
		key{"at_limit", false, func(n *node) { p.NowAtLimit = word(r, n, notify.Now, notify.Never) == notify.Now }},
		key{"base", false, func(n *node) { p.Base = r.float(n, 0, 1) }},
		key{"open_rate", false, func(n *node) { p.OpenRate = r.float(n, 0, 1) }},
		key{"half_life", false, span(&p.HalfLife, time.Millisecond, maxHalfLife)},
		key{"embed_text", false, func(n *node) { p.EmbedText = r.embedText(n, t) }},
		key{"other_channels", false, func(n *node) { p.OthersLater = r.either(n, "never", "later") }},
		key{"when_capped", false, func(n *node) { p.CappedToDigest = r.either(n, "slot", "digest") }},
	)
}

// embedText reads whether texts of a type may be sent to the embedding API, which no
// policy allows for codes of logins and for what users write to each other.
func (r *reader) embedText(n *node, t notify.EventType) bool {
	allowed := r.bool(n)
	if allowed && t.Private() {
		r.fault(n, "texts of %s are never sent to the embedding API: set it to false", t)
		return false
	}
	return allowed
}

// identity reads paths into the metadata.
func (r *reader) identity(n *node) (paths []string) {
	if len(n.items) > maxIdentity {
		r.fault(n, "found %d paths, expected at most %d", len(n.items), maxIdentity)
	}
	r.list(n, 0, func(item *node) {
		switch path := r.string(item, notify.MaxMetadataBytes); {
		case path == "":
		case !goodPath(path):
			r.fault(item, "malformed path %q: expected 1 to %d names with dots between them, such as order.id", path, metadataLevels)
		case slices.Contains(paths, path):
			r.fault(item, "%s is there twice: remove one", path)
		default:
			paths = append(paths, path)
		}
	})
	return paths
}

func (r *reader) score(n *node, p *notify.ScorePolicy) {
	number := func(to *float64, least, most float64) func(*node) {
		return func(n *node) { *to = r.float(n, least, most) }
	}
	w := &p.Weights
	r.object(n,
		key{"weights", false, func(n *node) {
			r.object(n,
				key{"base", false, number(&w.Base, 0, maxWeight)},
				key{"hint", false, number(&w.Hint, 0, maxWeight)},
				key{"taste", false, number(&w.Taste, 0, maxWeight)},
				key{"recency", false, number(&w.Recency, 0, maxWeight)},
				key{"calm", false, number(&w.Calm, 0, maxWeight)},
			)
			if w.Base+w.Hint+w.Recency+w.Calm < math.SmallestNonzeroFloat32 {
				r.fault(n, "the weights without taste are all 0, and taste can be absent: raise one of base, hint, recency, calm")
			}
		}},
		key{"now", false, number(&p.Now, 0, 1)},
		key{"later", false, number(&p.Later, 0, 1)},
		key{"taste", false, func(n *node) { p.Taste = r.bool(n) }},
		key{"taste_floor", false, number(&p.Floor, -1, 1)},
		key{"taste_ceiling", false, number(&p.Ceiling, -1, 1)},
		key{"response", false, number(&p.Response, 0, 1)},
	)
	if p.Later > p.Now {
		r.fault(n, "later is %g, above now, which is %g: lower it", p.Later, p.Now)
	}
	if p.Floor >= p.Ceiling {
		r.fault(n, "taste_floor is %g, not below taste_ceiling, which is %g: lower it", p.Floor, p.Ceiling)
	}
}
