package notifications

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
	"keyfold/source/sample"
)

// Log is what users did in a shop, ordered by time.
type Log struct {
	Actions  []Action
	Products map[int32]profile.Product // by id; a product may be absent
}

// Action is one step of a user.
type Action struct {
	User    int32
	Type    profile.EventType
	Product int32 // 0: none
	At      engine.Millis
	Order   string  // of a purchase, "" unknown
	Price   float64 // 0: unknown
	Device  string
	Country string // English name, "" unknown
}

// Sample returns the log of the sample shop's visitors. Their visits follow the hours
// of their own day.
func Sample(c Config) Log {
	shop := sample.DefaultConfig(c.Sessions)
	shop.Users, shop.Seed, shop.Span, shop.End = c.Users, c.Seed, c.Span, c.Start.Add(c.Span)
	l := Log{Products: map[int32]profile.Product{}}
	for _, p := range sample.Products() {
		l.Products[p.ID] = p
	}
	people := crowd{config: c}
	for _, body := range sample.Events(shop) {
		a, err := readAction(body)
		if err != nil {
			panic(err) // the sample shop's events are valid
		}
		a.At = byDay(a.At, people.of(a.User, "").country.offset())
		l.Actions = append(l.Actions, a)
	}
	l.sort()
	return l
}

// byDay moves an instant within its local day, from hours that are all alike to those
// at which people visit a shop.
func byDay(at, offset engine.Millis) engine.Millis {
	const hour = 60 * 60 * 1000
	// Of 100 visits of a day, so many are before that hour.
	rhythm := [][2]engine.Millis{{0, 0}, {4, 6}, {16, 9}, {38, 13}, {60, 17}, {90, 22}, {100, 24}}
	local := at + offset
	day := local - local%(24*hour)
	within := local - day
	for i := 1; i < len(rhythm); i++ {
		from, to := rhythm[i-1], rhythm[i]
		if start, end := from[0]*24*hour/100, to[0]*24*hour/100; within < end {
			return day + from[1]*hour + (within-start)*(to[1]-from[1])*hour/(end-start) - offset
		}
	}
	return at
}

func (l *Log) sort() {
	slices.SortStableFunc(l.Actions, func(a, b Action) int { return int(a.At - b.At) })
}

func readAction(line []byte) (Action, error) {
	var m struct {
		UserID   int32  `json:"user_id"`
		Type     string `json:"event_type"`
		Product  int32  `json:"product_id"`
		At       string `json:"occurred_at"`
		Metadata struct {
			Order   string  `json:"order_id"`
			Price   float64 `json:"price"`
			Device  string  `json:"device"`
			Country string  `json:"country"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return Action{}, err
	}
	at, err := time.Parse(time.RFC3339Nano, m.At)
	if err != nil {
		return Action{}, fmt.Errorf("occurred_at: %w", err)
	}
	return Action{
		User: m.UserID, Type: profile.ParseEventType(m.Type), Product: m.Product, At: engine.MillisOf(at),
		Order: m.Metadata.Order, Price: m.Metadata.Price, Device: m.Metadata.Device, Country: m.Metadata.Country,
	}, nil
}
