package sim

import (
	"slices"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/settings"
	"keyfold/proof/schedule"

	"keyfold/shard"
)

// plan is all that a schedule's number says beforehand.
type plan struct {
	dimensions int
	short      time.Duration // half-life of the second vector; 0: none
	workers    int
	windows    shard.Config // but for the prefetch
	prefetch   int
	retry      settings.Retry
	holdMax    time.Duration
	lease      time.Duration
	ids        profile.IDLimits
	cacheBytes int64
	conflicts  int
	// phraseTimeout is how long a search waits before its window; 0: in its flush.
	phraseTimeout time.Duration

	events       []event
	byBody       map[string]int
	publishes    []publish
	publications int // len(publishes)
	shop         map[int32]profile.Product
	users        int32
	erased       map[int32]bool

	noDelayQueues bool
	actions       []action
	quietAfter    time.Duration // after it nothing fails any more
	rates         rates
}

// rates are how many of a thousand cases go wrong, and how long a majority takes.
type rates struct {
	load, swap, products, phrase, away int
	lost, refused, unconfirmed         int
	lag                                time.Duration
}

// publish is one publication of an event.
type publish struct {
	at    time.Duration
	event int
}

// planOf draws a schedule's plan.
func planOf(number uint64, deep bool) *plan {
	d := schedule.Of(number, "plan")
	p := &plan{
		dimensions: 4 + 2*d.N(3),
		workers:    1 + d.N(3),
		users:      int32(1 + d.N(4)),
		prefetch:   []int{4, 16, 64, 600}[d.N(4)],
		retry: settings.Retry{
			Attempts: 3 + d.N(3),
			Delay:    []time.Duration{time.Second, 5 * time.Second}[d.N(2)],
		},
		holdMax:    []time.Duration{time.Second, 20 * time.Second, time.Minute}[d.N(3)],
		cacheBytes: []int64{0, 1500, 1 << 20}[d.N(3)],
		conflicts:  []int{3, 10}[d.N(2)],
		erased:     map[int32]bool{},
	}
	p.windows = drawWindows(&d)
	p.noDelayQueues = d.Chance(80)
	p.rates = drawRates(&d)
	p.drawIDLimits(&d)
	p.quietAfter = d.Between(5*time.Second, 60*time.Second)
	if d.Chance(200) {
		p.quietAfter = d.Between(p.ids.Horizon, 2*p.ids.Horizon)
	}
	p.shop = shopOf(p.dimensions)
	p.drawEvents(&d)
	if deep {
		p.removeRejects()
	}
	p.drawPublishes(&d)
	p.drawSteady(&d)
	p.drawActions(&d)
	if deep {
		p.actions = append(p.actions, action{at: d.Between(0, p.quietAfter), disturbance: failOver})
		slices.SortFunc(p.actions, func(a, b action) int { return int(a.at - b.at) })
	}
	short := schedule.Of(number, "second vector")
	p.short = []time.Duration{0, 0, 10 * time.Second, 7 * 24 * time.Hour}[short.N(4)]
	p.phraseTimeout = []time.Duration{0, 100 * time.Millisecond, 3 * time.Second}[d.N(3)]
	return p
}

// drawIDLimits makes profiles keep hardly more ids than they must: in every
// schedule ids are dropped.
func (p *plan) drawIDLimits(d *schedule.RNG) {
	p.ids = profile.IDLimits{Retention: time.Hour, Min: 1, Keep: []int{1, 4, 16}[d.N(3)], Max: 1 << 18}
	p.lease, p.ids.Horizon = settings.Horizon(p.holdMax, p.windows.MaxDelay)
	// Where what is parked waits in process it fills the prefetch, and the queue
	// stands still for longer than ids are kept: that is not promised.
	if small := d.Chance(100); small && !p.noDelayQueues {
		p.ids.Max = p.ids.Keep + 4
	}
}

// drawSteady has one user go on for longer than ids are kept, with a pause now and
// then that is as long as a pause counts.
func (p *plan) drawSteady(d *schedule.RNG) {
	gap := p.ids.Horizon / 10
	for at := d.Between(0, gap); at < p.ids.Horizon*3/2; at += d.Between(gap/3, gap*5/4) {
		p.publishes = append(p.publishes, publish{at, len(p.events)})
		p.addEvent(p.steadyEvent(d, len(p.events)))
	}
	slices.SortFunc(p.publishes, func(a, b publish) int { return int(a.at - b.at) })
	p.publications = len(p.publishes)
}

func drawWindows(d *schedule.RNG) shard.Config {
	c := shard.DefaultConfig()
	c.Shards = 1 + d.N(2)
	c.FlushKeys = 1 + d.N(4)
	c.MaxSize = []int{1, 3, 8, 500}[d.N(4)]
	c.Window = []time.Duration{20 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second}[d.N(3)]
	c.Batching = !d.Chance(200)
	c.Flushes = c.Shards * (1 + d.N(3))
	c.MaxDelay = 3 * c.Window
	return c
}

// drawRates makes some schedules rough and some quiet: a fault that comes alone
// shows other faults than many at once.
func drawRates(d *schedule.RNG) rates {
	roughness := []int{0, 1, 1, 4}[d.N(4)]
	return rates{
		load: 30 * roughness, swap: 80 * roughness, products: 20 * roughness,
		phrase: 80 * roughness, away: 20 * roughness,
		lost: 30 * roughness, refused: 30 * roughness, unconfirmed: 30 * roughness,
		lag: []time.Duration{20 * time.Millisecond, time.Second, 12 * time.Second}[d.N(3)],
	}
}

// drawPublishes spreads the events over the time before the faults end, in any order,
// some of them twice or more.
func (p *plan) drawPublishes(d *schedule.RNG) {
	span := d.Between(100*time.Millisecond, p.quietAfter)
	for event := range p.events {
		// What a publisher repeats later than that may be folded again.
		at, repeats := d.Between(0, span), min(span, p.lease)
		for more := true; more; more = d.Chance(100) {
			p.publishes = append(p.publishes, publish{at, event})
			at += d.Between(0, repeats)
		}
	}
}

// disturbance is what an action does.
type disturbance uint8

const (
	killWorker      disturbance = iota // and start it again
	stopWorker                         // in order, and start it again
	cutConsumer                        // one consuming connection
	cutPublisher                       // the publishing ones of a worker
	blackholeWorker                    // its connections go silent
	restartBroker                      // every connection ends; none is made for a while
	cancelConsumers
	raiseAlarm
	storeDown
	failOver
	eraseUser
	startWorker
	disturbances
)

var disturbanceNames = [disturbances]string{
	"kill worker", "stop worker", "cut consumer", "cut publishers", "blackhole worker", "restart broker",
	"cancel consumers", "raise alarm", "store down", "failover", "erase user", "start worker",
}

// action is a disturbance at its time.
type action struct {
	at          time.Duration
	disturbance disturbance
	on          int           // worker or user
	span        time.Duration // until it is over
	flag        bool          // what that means depends on the disturbance
}

func (p *plan) drawActions(d *schedule.RNG) {
	often := [disturbances]int{
		killWorker: 6, stopWorker: 2, cutConsumer: 4, cutPublisher: 3, blackholeWorker: 2, restartBroker: 1,
		cancelConsumers: 1, raiseAlarm: 1, storeDown: 2, failOver: 4,
	}
	sum := 0
	for _, n := range often {
		sum += n
	}
	for range d.N(7) {
		pick, chosen := d.N(sum), disturbance(0)
		for pick >= often[chosen] {
			pick -= often[chosen]
			chosen++
		}
		p.actions = append(p.actions, action{
			at: d.Between(0, p.quietAfter), disturbance: chosen, on: d.N(p.workers),
			span: d.Latency(2*time.Second, 40*time.Second), flag: d.Chance(500),
		})
	}
	if d.Chance(100) {
		user := int32(1 + d.N(int(p.users)))
		p.erased[user] = true
		p.actions = append(p.actions, action{at: d.Between(0, p.quietAfter), disturbance: eraseUser, on: int(user)})
	}
	slices.SortFunc(p.actions, func(a, b action) int { return int(a.at - b.at) })
}
