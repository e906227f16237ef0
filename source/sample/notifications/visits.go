package notifications

import (
	"keyfold/engine"
	"keyfold/engine/profile"
)

// visit is what a user did without a pause of half an hour.
type visit struct {
	user       int32
	start, end engine.Millis
	device     string
	country    string
	seen       []int32 // products, in order of their last look
	orders     []order
}

// order is one purchase with its lines.
type order struct {
	number   string // "" where the log has none
	at       engine.Millis
	products []int32
	amount   float64
}

const pause = engine.Millis(30 * 60 * 1000)

// visits cuts a log, ordered by time, into visits, ordered by their start.
func visits(l *Log) []*visit {
	var all []*visit
	current := map[int32]*visit{}
	for i := range l.Actions {
		a := &l.Actions[i]
		v := current[a.User]
		if v == nil || a.At-v.end > pause {
			v = &visit{user: a.User, start: a.At, device: a.Device, country: a.Country}
			current[a.User] = v
			all = append(all, v)
		}
		v.end = a.At
		v.add(a)
	}
	return all
}

func (v *visit) add(a *Action) {
	if a.Product == 0 {
		return
	}
	v.forget(a.Product)
	if a.Type != profile.ProductPurchase {
		v.seen = append(v.seen, a.Product)
		return
	}
	n := len(v.orders) - 1
	if n < 0 || v.orders[n].number != a.Order {
		v.orders = append(v.orders, order{number: a.Order, at: a.At})
		n++
	}
	o := &v.orders[n]
	o.products = append(o.products, a.Product)
	o.amount += a.Price
}

// forget takes a product out of those that were only looked at.
func (v *visit) forget(product int32) {
	for i, p := range v.seen {
		if p == product {
			v.seen = append(v.seen[:i], v.seen[i+1:]...)
			return
		}
	}
}
