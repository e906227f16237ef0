package bench

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/report"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
)

// measurement is one call.
type measurement struct {
	*Cmd
	app        *app.App
	store      *mongodb.Store
	partitions int
	products   []int32
	types      []profile.EventType
	mark       string        // in message ids: a measurement beside this one, or one that was interrupted, may have the same users
	first      int32         // user
	ahead      time.Duration // the store's clock before this machine's

	counts    []int                           // events of each user so far
	due       map[profile.AppliedID]time.Time // of the events that were not met in a profile
	toProfile report.Latencies
	depths    []int
	again     int // messages that were published again, as their outcome was not known
}

// mostProducts is how many products events are of.
const mostProducts = 1000

// gap is how many ids are left out at most. Events of a measurement that was broken off may be on
// their way, and its users not in the store yet: the next one is to take others.
const gap = 10_000

// prepare chooses products and users, and compares the clocks.
func (m *measurement) prepare() error {
	for p, err := range m.store.AllProducts(m.app.Ctx) {
		if err != nil {
			return err
		}
		if m.products = append(m.products, p.ID); len(m.products) == mostProducts {
			break
		}
	}
	if len(m.products) == 0 {
		return fmt.Errorf("the database %s has no product: import the catalogue with `keyfold products import`", m.app.Servers.Database)
	}
	last := int32(firstUser - 1)
	for p, err := range m.store.ProfilesAbove(m.app.Ctx, last) {
		if err != nil {
			return err
		}
		if int(p.UserID)-int(last) > gap+m.Users {
			break // there is room before it
		}
		last = p.UserID
	}
	if int(last)+gap+m.Users > math.MaxInt32 {
		return fmt.Errorf("the store has user %d, and ids end at %d: there is no room for %d new users; erased users keep their ids", last, math.MaxInt32, m.Users)
	}
	m.first, m.counts = last+1+rand.Int32N(gap), make([]int, m.Users)
	began := time.Now()
	at, err := m.store.Now(m.app.Ctx)
	m.ahead = at.Time().Sub(began.Add(time.Since(began) / 2))
	return err
}

// report begins one, with the versions of the servers.
func (m *measurement) report() (*report.Report, error) {
	flags := []report.Named{
		{Name: "rate", Value: fmt.Sprintf("%g/s", float64(m.Rate))}, {Name: "for", Value: m.For.String()}, {Name: "users", Value: fmt.Sprint(m.Users)}, {Name: "wait", Value: m.Wait.String()},
	}
	command := []string{"keyfold", "bench"}
	for _, f := range flags {
		command = append(command, "--"+f.Name, f.Value)
	}
	r := report.New("keyfold bench", command...)
	r.Settings = slices.Concat(flags, []report.Named{{Name: "partitions", Value: fmt.Sprint(m.partitions)}, {Name: "model", Value: m.app.Config.Processor.Model}})
	broker, err := rabbit.Version(m.app.Ctx, m.app.Servers.RabbitMQ)
	if err != nil {
		return nil, app.BrokerUnreached(err)
	}
	r.Version("RabbitMQ", broker)
	version, err := m.store.Version(m.app.Ctx)
	r.Version("store", version)
	return r, err
}

// run publishes, waits for the profiles, and reports.
func (m *measurement) run(r *report.Report) error {
	bar := m.app.Progress("measuring", int64(m.events()), nil)
	defer bar.Done()
	stop := r.Watch(m.app.Ctx, m.watched)
	defer stop()
	err := m.connected(r, func(p publisher) error { return m.publish(r, p, bar) })
	if err != nil {
		return err
	}
	end := time.Now().Add(m.Wait)
	for {
		if err := errors.Join(m.read(), m.look(r)); err != nil {
			return err
		}
		if len(m.due) == 0 || !time.Now().Before(end) {
			break
		}
		select {
		case <-m.app.Ctx.Done():
			return m.app.Ctx.Err()
		case <-time.After(time.Second):
		}
	}
	stop()
	dead, err := m.deadLetters()
	if err != nil {
		return err
	}
	r.Load(report.Load{
		PerMinute: 60 * float64(m.Rate), Published: m.events(), Folded: m.events() - len(m.due), Dead: dead, ToProfile: m.toProfile, QueueDepth: m.depths,
	})
	r.Add("store's clock ahead", "ms", m.ahead.Seconds()*1000)
	if m.again > 0 {
		r.Note("the broker was away: %s published again; a profile counts an id once", cli.Count(int64(m.again), "message"))
	}
	r.Note("users %s were written; `keyfold bench --clean` erases them", m.written())
	return nil
}

func (m *measurement) written() string {
	return fmt.Sprintf("%d to %d", m.first, int(m.first)+m.Users-1)
}

func (m *measurement) watched() map[string]int {
	pids := map[string]int{}
	for _, pid := range m.Processes {
		pids[fmt.Sprint("process ", pid)] = pid
	}
	return pids
}
