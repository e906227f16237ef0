package notifications

import (
	"time"

	"keyfold/engine"
)

// draft is a notification before it has an id, texts and a label.
type draft struct {
	at     engine.Millis
	to     *person
	kind   kind
	values values
	// about is the identity of the thing: an order's number, a product, a thread.
	about string
	// serial tells apart what is about one thing: the lines of a thread, broadcasts.
	serial string
	extra  map[string]any // metadata
	edit   Edit
	roll   uint64 // the chance of this draft, by which its edit and its producer vary
}

// thing is what makes two notifications of a user the same to a reader.
type thing struct {
	user          int32
	kind          kind
	about, serial string
	values        values
}

// thing leaves out the serial of a campaign: a sale that is announced twice is the same
// notification twice.
func (d *draft) thing() thing {
	is := thing{d.to.id, d.kind, d.about, d.serial, d.values}
	if services[d.kind].key == campaignKey {
		is.serial = ""
	}
	return is
}

// teller makes drafts.
type teller struct {
	config Config
	log    *Log
	start  engine.Millis
	end    engine.Millis
	crowd  crowd
	chance
	drafts  []*draft
	devices map[device]bool
	orders  int // the number of the newest order
	open    []openOrder
	tills   []string // departments
	sales   int      // campaigns so far
}

type device struct {
	user int32
	name string
}

// openOrder is an order on its way.
type openOrder struct {
	*draft
	from, to engine.Millis
}

func millis(d time.Duration) engine.Millis { return engine.Millis(d / time.Millisecond) }

// tell adds a draft. Those outside of the span are left out.
func (t *teller) tell(at engine.Millis, to *person, k kind, about string, v values) *draft {
	v[slotName] = to.name
	d := &draft{at: at, to: to, kind: k, values: v, about: about, roll: t.Uint64()}
	if at >= t.start && at < t.end {
		t.drafts = append(t.drafts, d)
	}
	return d
}
