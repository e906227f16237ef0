package notifications

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// broadcasts tells what many users get at one moment, each day of the span.
func (t *teller) broadcasts(all []*visit) {
	t.departments()
	for midnight := t.start - t.start%millis(day); midnight < t.end; midnight += millis(day) {
		audience := t.audience(all, midnight)
		t.campaign(audience, midnight+t.between(8*time.Hour, 9*time.Hour))
		t.campaign(audience, midnight+t.between(15*time.Hour, 18*time.Hour))
		for range 4 {
			t.priceDrop(all, midnight+t.between(0, day))
		}
		switch weekday := midnight.Time().Weekday(); weekday {
		case time.Monday:
			t.digest(audience, midnight+millis(6*hour))
		case time.Tuesday, time.Saturday:
			t.maintenance(audience, midnight+t.between(10*time.Hour, 16*time.Hour))
		case time.Thursday:
			t.strike(midnight + t.between(7*time.Hour, 15*time.Hour))
		}
		t.recommend(audience, midnight+millis(7*hour))
	}
}

// audience returns those who get broadcasts: the configured users and those who came
// within a week, by id.
func (t *teller) audience(all []*visit, at engine.Millis) (people []*person) {
	met := map[int32]bool{}
	for id := range t.config.Users {
		met[int32(id)+1] = true
		people = append(people, t.crowd.of(int32(id)+1, ""))
	}
	for _, v := range all {
		if !met[v.user] && v.start < at+millis(day) && v.end >= at-millis(7*day) {
			met[v.user] = true
			people = append(people, t.crowd.of(v.user, v.country))
		}
	}
	slices.SortFunc(people, func(a, b *person) int { return int(a.id) - int(b.id) })
	return people
}

func (t *teller) departments() {
	for _, p := range t.log.Products {
		if name := department(p); name != "" && !slices.Contains(t.tills, name) {
			t.tills = append(t.tills, name)
		}
	}
	if slices.Sort(t.tills); len(t.tills) == 0 {
		t.tills = []string{"Gifts", "Home", "Garden", "Office", "Toys", "Kitchen", "Books", "Sports"}
	}
	t.Shuffle(len(t.tills), func(i, j int) { t.tills[i], t.tills[j] = t.tills[j], t.tills[i] })
}

// department is the last part of a category.
func department(p profile.Product) string {
	return cut(p.Category[strings.LastIndexByte(p.Category, '/')+1:], 40)
}

// campaign tells a share of the audience of a sale at one moment, and some of them of
// its end, two days later.
func (t *teller) campaign(audience []*person, at engine.Millis) {
	percent := strconv.Itoa(5 * (1 + t.IntN(10)))
	// In turn: a sale is not announced again while it lasts.
	v := values{slotPercent: percent, slotDepartment: t.tills[t.sales%len(t.tills)]}
	t.sales++
	v[slotVoucher] = strings.ToUpper(cut(v[slotDepartment], 3)) + percent
	serial := strconv.FormatInt(int64(at), 36)
	end := at - at%millis(day) + millis(2*day+17*hour)
	for _, p := range audience {
		if !t.share(t.config.Reach) {
			continue
		}
		t.tell(at, p, campaign, "", v).serial = serial
		if t.of(20) {
			t.tell(end, p, last, "", v).serial = serial
		}
	}
}

// priceDrop tells those who looked at a product within a week that it is cheaper.
func (t *teller) priceDrop(all []*visit, at engine.Millis) {
	var recent []*visit
	for _, v := range all {
		if v.end < at && v.end >= at-millis(7*day) && len(v.seen) > 0 {
			recent = append(recent, v)
		}
	}
	if len(recent) == 0 {
		return
	}
	product := pick(t.chance, pick(t.chance, recent).seen)
	percent := 5 + t.IntN(40)
	met := map[int32]bool{}
	for _, v := range recent {
		if met[v.user] || !slices.Contains(v.seen, product) {
			continue
		}
		met[v.user] = true
		p := t.crowd.of(v.user, v.country)
		t.tell(at, p, price, strconv.Itoa(int(product)), values{
			slotProduct: t.product(product), slotPercent: strconv.Itoa(percent),
			slotAmount: money(p, listPrice(product)*float64(100-percent)/100),
		})
	}
}

func (t *teller) digest(audience []*person, at engine.Millis) {
	for _, p := range audience {
		t.tell(at, p, weekly, "", values{
			slotDate: date(p, at), slotCount: strconv.Itoa(3 + t.IntN(20)), slotDepartment: pick(t.chance, t.tills),
		})
	}
}

// recommend tells a fifth of the audience what suits them, every day.
func (t *teller) recommend(audience []*person, at engine.Millis) {
	for _, p := range audience {
		if uint32(p.id)*2654435761>>16%5 != 0 {
			continue
		}
		t.tell(at+t.between(0, time.Hour), p, picks, "", values{
			slotDate: date(p, at), slotCount: strconv.Itoa(3 + t.IntN(9)), slotDepartment: pick(t.chance, t.tills),
		})
	}
}

func (t *teller) maintenance(audience []*person, at engine.Millis) {
	begin := at - at%millis(day) + millis(27*hour)
	minutes := strconv.Itoa(15 * (1 + t.IntN(8)))
	for _, p := range audience {
		v := values{slotDate: date(p, begin), slotTime: begin.Time().Format("15:04"), slotCount: minutes}
		t.tell(at, p, maintenance, "", v)
	}
}

// strike tells of the delay of all orders on their way, within ten minutes.
func (t *teller) strike(at engine.Millis) {
	for i := range t.open {
		if o := &t.open[i]; o.from < at && at < o.to {
			v := o.values
			v[slotDate] = date(o.draft.to, o.to+millis(2*day))
			d := t.tell(at+t.between(0, 10*time.Minute), o.draft.to, delay, o.about, v)
			d.extra = map[string]any{"incident": true, "carrier": map[string]any{"id": 7, "name": "Express"}}
		}
	}
}
