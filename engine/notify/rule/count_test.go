package rule

import (
	"encoding/json"
	"fmt"
	"testing"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Counts end exactly at their windows, and a digest's message counts once.
func TestCountsOfAKind(t *testing.T) {
	in := promo() // on push and email
	shop, other := notify.SourceHash("shop"), notify.SourceHash("other")
	send := func(ago engine.Millis, kind notify.EventType, source uint32, channel notify.Channel) notify.Sent {
		return notify.Sent{At: in.Now - ago, Type: kind, Source: source, Channels: notify.SetOf([]notify.Channel{channel})}
	}
	item := func(s notify.Sent) notify.Sent { s.Item = true; return s }
	follow := func(s notify.Sent) notify.Sent { s.Follow = true; return s }
	const day, minute = engine.Millis(86_400_000), engine.Millis(60_000)
	in.Sent = []notify.Sent{
		send(day, notify.Promo, shop, notify.Push),   // out of each window
		send(day-1, notify.Promo, shop, notify.Push), // just within
		follow(send(50*minute, notify.Promo, shop, notify.Email)),
		send(30*minute, notify.Update, other, notify.SMS), // a message of three items
		item(send(30*minute, notify.Promo, other, notify.SMS)),
		item(send(30*minute, notify.Promo, shop, notify.SMS)),
		send(5*minute, notify.Alert, shop, notify.Email), // out of the shortest window
		send(0, notify.Promo, other, notify.InApp),
	}
	for field, want := range map[string]int{
		"count_5m_type": 1, "count_1h_type": 2, "count_24h_type": 3,
		"count_5m_source": 0, "count_1h_source": 2, "count_24h_source": 3,
		"count_5m_channel": 0, "count_1h_channel": 2, "count_24h_channel": 3,
	} {
		if compiled(t, ruleOf(1, 1, leaf(field, "eq", want), "NOW")).Match(in, nil) == nil {
			n, _ := fieldOf(field).number(in)
			t.Errorf("%s: found %d, expected %d", field, n, want)
		}
	}
	if lines := compiled(t, ruleOf(1, 1, leaf("count_24h_type", "gt", json.Number("3")), "NOW")).Near(in); fmt.Sprint(lines) != "[rule B: asks for count_24h_type gt 3, found 3]" {
		t.Errorf("found %s", lines)
	}
}
