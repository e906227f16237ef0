package rule

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// shopRules makes a set of a shop: of every type so many rules by source, metadata, time
// and counts, none of which matches [promo].
func shopRules(n int) (rules []object) {
	for i := range n {
		kind := leaf("event_type", "eq", notify.EventTypes[i%len(notify.EventTypes)].String())
		var c object
		switch i / len(notify.EventTypes) % 9 {
		case 0:
			c = all(kind, leaf("source", "in", []string{fmt.Sprint("service-", i), fmt.Sprint("team-", i), fmt.Sprint("job-", i)}))
		case 1:
			c = all(kind, leaf("metadata.campaign", "eq", fmt.Sprint("campaign-", i)), leaf("count_24h", "gte", 2))
		case 2:
			c = all(kind, leaf("metadata.n", "gt", 100+i), leaf("priority_hint", "in", []any{"LOW", nil}))
		case 4:
			c = all(kind, leaf("metadata.tags", "contains", fmt.Sprint("tag-", i)), leaf("metadata.starts", "before", "2027-01-01"))
		case 5:
			c = all(kind, leaf("user.since", "after", "2020-01-01"), leaf("user_id", "percent", 99), leaf("count_24h_channel", "gte", 20))
		case 6:
			c = all(kind, leaf("title", "contains", "le"), leaf("source", "prefix", "sh"), leaf("count_1h_type", "gt", 20), leaf("count_24h_source", "gt", 20))
		case 7:
			c = all(kind, leaf("metadata.s", "before", "2027-01-01"), leaf("now", "after", "2020-01-01"))
		case 3:
			c = all(object{"op": "OR", "rules": []any{leaf("local_hour", "lt", 6), leaf("local_hour", "gte", 22)}}, leaf("channel", "eq", "push"), kind)
		default:
			c = all(leaf("age_s", "gt", 3600+i), leaf("turn", "eq", 0), leaf("source", "neq", "mail")) // of every type
		}
		rule := ruleOf(i, i, c, "LATER")
		rule["name"] = fmt.Sprint("rule ", i)
		rules = append(rules, rule)
	}
	return rules
}

func TestMatchingDoesNotAllocate(t *testing.T) {
	p, in := compiled(t, shopRules(200)...), promo()
	for at := range engine.Millis(20) {
		in.Sent = append(in.Sent, notify.Sent{At: in.Now - 60_000 + at, Type: notify.Promo, Channels: notify.SetOf(in.Event.Channels), Source: notify.SourceHash("shop")})
	}
	in.Sent = in.Sent[:19]
	spent := []uuid.UUID{uuid.New(), uuid.New()}
	if n := testing.AllocsPerRun(100, func() { p.Match(in, spent) }); n != 0 {
		t.Errorf("a match against 200 rules allocates %v times", n)
	}
	if p.Match(in, nil) != nil {
		t.Error("a rule matched: fewer than all were asked")
	}
}

// BenchmarkMatch measures the search among 200 rules of which none matches.
func BenchmarkMatch(b *testing.B) {
	p, in := compiled(b, shopRules(200)...), promo()
	b.ReportAllocs()
	for b.Loop() {
		p.Match(in, nil)
	}
}

// BenchmarkCompile measures reading and compiling a document of 200 rules.
func BenchmarkCompile(b *testing.B) {
	text := documentOf(b, shopRules(200)...)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		d, faults := Read(text)
		if d == nil {
			b.Fatal(faults.Err())
		}
		Compile(d, notify.Local{})
	}
}
