// Package rule makes the rules of a [notify.Set] from its document: one JSON text
// with the set's version, policy, rules and test cases.
//
//	Read     text -> Document     strict; all faults at once, each with its rule and path
//	Compile  Document -> Set      the rules as a flat program, indexed by event type
//	Program  Match, Near          which rule matches, which nearly do
//	Test     the document's cases, decided by notify.Decide
//	Default  the shipped set, default.json
//
// # The document
//
//	{
//	  "version": "2026-11-28",          names the set in records
//	  "policy": {                       all of it optional: default.json has the defaults
//	    "types": {"PROMO": {"duplicate_window": "24h", "duplicates_by_key_only": false,
//	      "near_duplicates": true, "capped": true, "cooldown": "4h", "quiet_hours": true,
//	      "at_limit": "NEVER", "base": 0.25, "half_life": "24h",
//	      "other_channels": "never", "when_capped": "slot"}},
//	    "caps": {"5m": 3, "1h": 6, "24h": 20},
//	    "identity": ["order_id"],       paths into the metadata
//	    "score": {"weights": {"base": 0.3, "hint": 0.25, "taste": 0.2, "recency": 0.1, "calm": 0.15},
//	      "now": 0.55, "later": 0.3, "taste": false, "taste_floor": 0.05, "taste_ceiling": 0.45},
//	    "limits": [{"name": "offers", "types": [...], "sources": [...], "channels": [...],
//	      "key": ["metadata.order_id"], "most": 2, "within": "24h"}],
//	    "topics": [{"name": "offers", "title": "Offers", "types": [...], "sources": [...],
//	      "locked": false}],
//	    "channels": {"in_app": {"quiet_hours": false}},
//	    "digests": {"show": 10, "title": TEMPLATE, "message": TEMPLATE, "keys": {"offers": {...}}}
//	  },
//	  "rules": [{"rule_id": UUID, "name": "promo-outside-day", "description": "...", "priority": 60,
//	    "conditions": {...}, "enabled": true, "version": "1.0.0", "updated_by": "...",
//	    "action": {"outcome": "LATER", "defer_strategy": "next_morning", "channel_override": null,
//	      "reason_code": "PROMO_OUTSIDE_DAY", "bypass": [...], "digest_key": [...],
//	      "escalate": [{"after": "1h", "channels": ["email"], "unless": "read"}]}}],
//	  "tests": [{"name": "...", "now": "2026-11-23T20:30:00Z", "event": {"event_type": "PROMO"},
//	    "prefs": {"zone": "Europe/Berlin", "quiet": [...], "muted": [...], "channels": [...], "caps": {"1h": 2},
//	      "topics": {"offers": {"channels": {"push": "off"}, "muted_until": INSTANT, "snoozed_until": INSTANT}},
//	      "digests": ["18:00"], "attributes": {...}, "paused": true, "muted_until": INSTANT, "snoozed_until": INSTANT},
//	    "state": {"sent": [{"ago": "20m", "event": {...}}], "erased": false},
//	    "turn": 0, "spent": ["name of a rule"], "cosine": 0.2,
//	    "outcome": "LATER", "reasons": ["PROMO_OUTSIDE_DAY"], "rule": "promo-outside-day",
//	    "defer_until": "2026-11-24T07:00:00Z", "channels": ["push"],
//	    "follow_ups": [{"channels": ["email"], "at": INSTANT, "digest": "offers"}]},
//	    {"name": "...", "digest": {"key": "offers", "events": [{...}],
//	      "expect": {"title": "...", "message": "...", "more": 2}}}]
//	}
//
// A policy that leaves out limits, topics, channels, digests, other_channels or when_capped has
// none of them, because sets that were published before there were any are to decide as they
// did: no limit, each channel keeps quiet hours, "never" and "slot". TEMPLATE is a
// [notify.Template].
//
// A rule needs rule_id, name, priority, conditions, action and version; a case name, event,
// outcome and reasons. A case without "rule" expects that none matches. An event of a case
// names only what matters: the other required keys are filled in. A case of a digest has its
// name and events in the order of the message; of what it expects one member is enough.
//
// # Conditions
//
// A condition is {"always": true}, {"op": "AND"|"OR"|"NOT", "rules": [conditions]} or a comparison
// {"field", "operator", "value"}. A field that an event does not have is null, as is
// metadata that is null. The laws of comparisons:
//
//   - eq and in may name null. They are false on null where they do not name it.
//   - gt, lt, gte, lte, prefix, contains, before, after and percent are false on null.
//   - neq, not_in and not_exists are the negations of eq, in and exists. Thus neq and
//     not_in are true on null unless they name it.
//   - channel is a list: eq and in ask for any of it, neq and not_in for none of it.
//   - Numbers are compared as decimals: 1.0 equals 1, "1" does not. Fields in seconds
//     have milliseconds: an age of 1500 ms is gt 1.
//   - prefix and contains tell upper from lower case, as eq does. A list in the metadata or the
//     attributes contains its texts as a whole.
//   - before and after are strict. A date is its midnight in UTC. A text that is no instant in
//     RFC 3339 and no date is neither before nor after one.
//   - percent chooses a text where XXH64(text, seed XXH64(the 16 bytes of the rule_id, seed 0))
//     mod 10,000 is below the value times 100.
//   - A metadata value of another type than the condition's equals none of its values and
//     is in no order with them: eq, in, gt, lt, gte, lte, prefix, contains, before,
//     after and percent are false, neq and not_in true.
package rule
