package notifysim

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"keyfold/proof/schedule"
	"keyfold/service/notify/notifier"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/notify"
	"keyfold/shard"
)

// plan is all that a schedule's number says beforehand.
type plan struct {
	// began is when the schedule begins, in 2000 as every bubble: near a change of the
	// clocks of Berlin (two), New York and Lord Howe, or in June.
	began     engine.Millis
	notifiers int
	oneSweeps bool // one of the notifiers sweeps for all
	config    notifier.Config
	prefetch  int
	users     []user
	events    []*notify.Notification
	publishes []publish
	cancels   []cancellation
	merges    []merging
	actions   []action
	newSet    time.Duration // when the second set comes into force

	quietAfter time.Duration // after it nothing fails any more
	rates      rates
}

// rates are how many of a thousand calls go wrong.
type rates struct {
	refused, hangs, lost, slow  int
	dispatch, confirm, ack, die int
	publish                     int
}

// user is a user's settings, and those that replace them.
type user struct {
	id    string
	prefs [2]notify.Preferences
}

// publish is one publication of an event.
type publish struct {
	at    time.Duration
	event int
}

// cancellation is a request to end what waits: an event, or all with its dedupe_key.
type cancellation struct {
	at    time.Duration
	event int
	byKey bool
	named bool // the user is named
}

// drawCancels draws cancellations: before an event comes, soon after, and while it waits.
func (p *plan) drawCancels(d *schedule.RNG) {
	for range d.N(8) {
		post := p.publishes[d.N(len(p.publishes))]
		c := cancellation{at: post.at + d.Latency(10*time.Second, 10*time.Minute), event: post.event, named: d.Chance(700)}
		if d.Chance(150) {
			c.at = max(0, post.at-d.Between(0, 10*time.Second))
		}
		c.byKey = p.events[c.event].DedupeKey != "" && d.Chance(500)
		p.cancels = append(p.cancels, c)
	}
}

const second, minute = engine.Millis(1000), engine.Millis(60_000)

// planOf draws a schedule's plan.
func planOf(number uint64) *plan {
	d := schedule.Of(number, "plan")
	p := &plan{
		began: []engine.Millis{
			954_032_400_000, 972_781_200_000, 954_658_800_000, 953_996_400_000, 961_588_800_000,
		}[d.N(5)] - 15*minute - engine.Millis(d.N(int(40*minute))),
		notifiers: 1 + d.N(3),
		prefetch:  []int{2, 8, 50}[d.N(3)],
		config:    drawConfig(&d),
		rates:     drawRates(&d),
	}
	p.quietAfter = d.Between(20*time.Second, 4*time.Minute)
	if d.Chance(300) {
		p.quietAfter = d.Between(10*time.Minute, 30*time.Minute)
	}
	p.newSet = d.Between(0, 2*p.quietAfter)
	p.drawUsers(&d)
	p.drawEvents(&d)
	p.drawActions(&d)
	p.drawCancels(&d)
	p.oneSweeps = d.Chance(700)
	p.drawMerges(&d)
	return p
}

// drawConfig draws odd intervals, so that hardly any two of them end in one instant.
func drawConfig(d *schedule.RNG) notifier.Config {
	c := notifier.DefaultConfig()
	c.Shard = shard.Config{
		Shards: 1 + d.N(2), MaxSize: 1 + d.N(20), MaxHeld: 8 + d.N(500), MaxHeldBytes: 1 << 20,
		Flushes: 1 + d.N(4), FlushKeys: 1 + d.N(4), FlushItems: 1 + d.N(20),
	}
	c.Lease = d.Between(3*time.Second, 60*time.Second)
	c.Poll = d.Between(3*time.Second, 20*time.Second)
	c.Claim = []int{1, 5, 100}[d.N(3)]
	c.Mark = d.Between(time.Second, 20*time.Second)
	c.Sweep = d.Between(20*time.Second, 90*time.Second)
	c.SweepAge = d.Between(time.Second, 60*time.Second)
	c.StartWait = 10 * time.Second
	c.Processor.Conflicts, c.Processor.Failures = 1+d.N(10), 1+d.N(5)
	c.Processor.Pause, c.Processor.MaxPause = instant, instant
	return c
}

// instant is the shortest pause: of what draws its pauses by itself, where the model's
// own, which are drawn from the schedule's number, space things out.
const instant = time.Nanosecond

func drawRates(d *schedule.RNG) rates {
	most := func(n int) int { return d.N(n + 1) }
	if d.Chance(150) {
		return rates{ack: most(50)}
	}
	return rates{
		refused: most(60), hangs: most(30), lost: most(150), slow: most(60),
		dispatch: most(150), confirm: most(150), ack: most(80), die: most(600), publish: most(200),
	}
}

func (p *plan) drawUsers(d *schedule.RNG) {
	for i := range 1 + d.N(4) {
		u := user{id: string(rune('a' + i))}
		for at := range u.prefs {
			u.prefs[at] = p.drawPreferences(d)
		}
		p.users = append(p.users, u)
	}
}

// disturbance is what an action does.
type disturbance uint8

const (
	kill      disturbance = iota // a notifier, and start it again
	stop                         // in order, and start it again
	cut                          // a notifier's connection to the broker
	storeDown                    // for every notifier
	brokerDown
	change // a user's preferences
	erase  // a user
	start  // a notifier
)

var disturbanceNames = []string{"kill", "stop", "cut connection", "store down", "broker down", "change preferences", "erase", "start"}

// action is a disturbance at its time.
type action struct {
	at          time.Duration
	disturbance disturbance
	on          int // notifier or user
	span        time.Duration
	flag        bool
}

func (p *plan) drawActions(d *schedule.RNG) {
	often := []disturbance{kill, kill, kill, kill, stop, stop, cut, cut, storeDown, brokerDown, change, change}
	for range d.N(9) {
		p.actions = append(p.actions, action{
			at: d.Between(0, p.quietAfter), disturbance: often[d.N(len(often))], on: d.N(12),
			span: d.Latency(5*time.Second, 2*time.Minute), flag: d.Chance(500),
		})
	}
	if d.Chance(200) {
		p.actions = append(p.actions, action{at: d.Between(0, p.quietAfter), disturbance: erase, on: d.N(len(p.users))})
	}
	slices.SortStableFunc(p.actions, func(a, b action) int { return int(a.at - b.at) })
}

// deaths are the boundaries at which a notifier may be killed.
var deaths = slices.DeleteFunc(slices.Clone(failpoint.NotificationNames), func(name string) bool {
	return name == failpoint.Posted || name == failpoint.Confirmed // the API's
})

// mortal is how many lives may end at a boundary, also after the last fault: deferrals
// come due late.
const mortal = 8

// deathOf draws the boundary at which a notifier's life ends, and at which visit; "" for
// none.
func (p *plan) deathOf(number, life uint64) (point string, visit int) {
	d := schedule.Of(number, "death", life)
	if life > mortal || !d.Chance(p.rates.die) {
		return "", 0
	}
	return deaths[d.N(len(deaths))], 1 + d.N(4)
}

func drawUUID(d *schedule.RNG) (id uuid.UUID) {
	for i := 0; i < len(id); i += 8 {
		for j, n := 0, d.Next(); j < 8; j, n = j+1, n>>8 {
			id[i+j] = byte(n)
		}
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}
