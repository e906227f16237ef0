package notifications

import (
	"strconv"
	"time"

	"keyfold/engine"
)

// visit tells what comes of one visit.
func (t *teller) visit(v *visit) {
	p := t.crowd.of(v.user, v.country)
	t.signIn(p, v)
	for i := range v.orders {
		t.order(p, &v.orders[i])
	}
	if len(v.orders) == 0 && len(v.seen) > 0 {
		t.cart(p, v)
	}
	if t.of(4) && len(v.seen) > 0 {
		t.answers(p, v)
	}
}

// signIn tells of a user's first visit with a device: a code, at times a second one for
// a code that did not come, and a notice.
func (t *teller) signIn(p *person, v *visit) {
	if t.devices[device{v.user, v.device}] {
		return
	}
	t.devices[device{v.user, v.device}] = true
	if v.device == "" && !t.of(15) { // the log does not say: most users are not new
		return
	}
	at := v.start
	for again := true; again; again = t.of(15) {
		t.tell(at, p, code, "", values{slotCode: strconv.Itoa(100_000 + t.IntN(900_000))})
		at += t.between(30*time.Second, 90*time.Second)
	}
	name := v.device
	if name == "" {
		name = "PC"
	}
	t.tell(at, p, signIn, "", values{slotDevice: name, slotTime: at.Time().Format("15:04")})
}

// order tells the way of an order: its payment, its parcels, its arrival.
func (t *teller) order(p *person, o *order) {
	number := o.number
	if number == "" {
		t.orders += 1 + t.IntN(7)
		number = strconv.Itoa(t.orders)
	}
	product := o.products[len(o.products)-1]
	v := values{slotOrder: number, slotProduct: t.product(product), slotAmount: t.amount(p, o)}
	at := o.at
	for t.of(4) { // the payment fails before it succeeds
		t.tell(at, p, failed, number, v)
		at += t.between(time.Minute, 10*time.Minute)
	}
	first := t.tell(at+t.between(200*time.Millisecond, 4*time.Second), p, placed, number, v)
	sent := t.nextBatch(at + t.between(2*time.Hour, 30*time.Hour))
	if t.of(30) {
		t.steps(p, number, at, sent)
	}
	v[slotDate] = date(p, sent+millis(3*day))
	if n := min(len(o.products), 2+t.IntN(4)); n > 1 && t.of(60) {
		for i := range n {
			v[slotParcel] = strconv.Itoa(i+1) + "/" + strconv.Itoa(n)
			t.tell(sent+engine.Millis(i)*t.between(10*time.Millisecond, 20*time.Minute), p, parcel, number, v)
		}
		v[slotParcel] = ""
	} else {
		t.tell(sent, p, shipped, number, v)
	}
	arrived := sent + t.between(18*time.Hour, 70*time.Hour)
	t.open = append(t.open, openOrder{first, at, arrived})
	t.tell(arrived, p, delivered, number, v)
	t.after(p, number, v, arrived)
}

// steps tells the states of an order, each by the same template.
func (t *teller) steps(p *person, number string, from, to engine.Millis) {
	for i, step := range languages()[p.country.language].steps {
		if t.of(70) {
			at := from + (to-from)*engine.Millis(i+1)/7
			t.tell(at, p, status, number, values{slotOrder: number, slotStatus: step})
		}
	}
}

// after tells what follows an order's arrival.
func (t *teller) after(p *person, number string, v values, arrived engine.Millis) {
	if t.of(60) {
		t.tell(arrived+t.between(20*time.Hour, 30*time.Hour), p, review, number, v)
	}
	if t.of(6) {
		t.tell(arrived+t.between(6*time.Hour, 3*day), p, refund, number, v)
	}
	if t.of(25) {
		t.support(p, number, arrived-t.between(0, 30*time.Hour))
	}
}

// support tells a conversation: some lines within minutes, each about the same thread.
func (t *teller) support(p *person, number string, at engine.Millis) {
	thread := "t" + strconv.Itoa(1000+t.IntN(9000)) + number
	agent := pick(t.chance, firstNames[p.country.language])
	said := languages()[p.country.language].said
	for i := range 1 + t.IntN(6) {
		v := values{slotOrder: number, slotPerson: agent, slotName: p.name}
		v[slotSaid] = fill(pick(t.chance, said), &v)
		t.tell(at, p, support, thread, v).serial = strconv.Itoa(i)
		at += t.soon(5*time.Second, 40*time.Minute)
	}
}

// cart tells of a cart that was left: a reminder, at times a second one, and what comes
// of the product later.
func (t *teller) cart(p *person, v *visit) {
	product := v.seen[len(v.seen)-1]
	about, texts := strconv.Itoa(int(product)), values{slotProduct: t.product(product)}
	at := v.end + t.between(45*time.Minute, 90*time.Minute)
	if t.of(85) {
		t.tell(at, p, cart, about, texts)
	}
	if t.of(25) {
		t.tell(at+t.between(19*time.Hour, 47*time.Hour), p, cart, about, texts)
	}
	if t.of(12) {
		texts[slotCount] = strconv.Itoa(1 + t.IntN(20))
		t.tell(v.end+t.between(3*time.Hour, 60*time.Hour), p, stock, about, texts)
	}
}

// answers tells of the answers to a question about a product.
func (t *teller) answers(p *person, v *visit) {
	product := v.seen[0]
	at := v.end
	for range 1 + t.IntN(3) {
		at += t.soon(2*time.Minute, 12*time.Hour)
		t.tell(at, p, answered, "a"+strconv.Itoa(t.IntN(1_000_000)), values{
			slotProduct: t.product(product), slotPerson: pick(t.chance, firstNames[p.country.language]),
		})
	}
}

// nextBatch returns when parcels leave next: the warehouse hands them over at 10:00 and
// 15:00 UTC, and all that have left are told of at once.
func (t *teller) nextBatch(at engine.Millis) engine.Millis {
	midnight := at - at%millis(day)
	for _, clock := range []time.Duration{10 * time.Hour, 15 * time.Hour, 34 * time.Hour} {
		if batch := midnight + millis(clock); batch > at {
			return batch
		}
	}
	return at
}

func (t *teller) product(id int32) string {
	if name := t.log.Products[id].Name; name != "" {
		return cut(name, 60)
	}
	return "article " + strconv.Itoa(int(id))
}

// amount is an order's price. Where the log has none, each product has one.
func (t *teller) amount(p *person, o *order) string {
	sum := o.amount
	if sum == 0 {
		for _, id := range o.products {
			sum += listPrice(id)
		}
	}
	return money(p, sum)
}

func listPrice(product int32) float64 { return float64(5+uint32(product)*7919%245) + 0.9 }

// money formats an amount as the user's country does.
func money(p *person, amount float64) string {
	switch c := p.country.currency; c {
	case "¥":
		return strconv.Itoa(int(amount*100)) + "円"
	case "€", "CHF":
		text := strconv.FormatFloat(amount, 'f', 2, 64)
		if p.country.language == "en" {
			return c + text
		}
		return text[:len(text)-3] + "," + text[len(text)-2:] + " " + c
	default:
		return c + strconv.FormatFloat(amount, 'f', 2, 64)
	}
}

// date formats a day as the user's language does.
func date(p *person, at engine.Millis) string {
	layout := map[string]string{"de": "02.01.", "fr": "02/01", "es": "02/01", "ja": "1月2日"}[p.country.language]
	if layout == "" {
		layout = "Jan 2"
	}
	return at.Time().Format(layout)
}
