package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"keyfold/cmd/keyfold/app"
	"keyfold/cmd/keyfold/failures"
	"keyfold/engine/profile"
	"keyfold/internal/cli"
	"keyfold/internal/report"
	"keyfold/sink/mongodb"
	"keyfold/source/rabbit"
	"keyfold/source/rabbit/deadletter"
)

// measurement is one call.
type measurement struct {
	*Cmd
	app        *app.App
	store      *mongodb.Store
	partitions int
	products   []int32
	first      int32         // user
	ahead      time.Duration // the store's clock before this machine's

	counts    []int                           // events of each user so far
	due       map[profile.AppliedID]time.Time // of the events that were not met in a profile
	toProfile report.Latencies
	depths    []int
}

// mostProducts is how many products events are of.
const mostProducts = 1000

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
		last = p.UserID
	}
	if int(last)+m.Users > math.MaxInt32 {
		return fmt.Errorf("the store has user %d, and ids end at %d: there is no room for %d new users; erased users keep their ids", last, math.MaxInt32, m.Users)
	}
	m.first, m.counts = last+1, make([]int, m.Users)
	began := time.Now()
	at, err := m.store.Now(m.app.Ctx)
	m.ahead = at.Time().Sub(began.Add(time.Since(began) / 2))
	return err
}

// report begins one, with the versions of the servers.
func (m *measurement) report() (*report.Report, error) {
	flags := []report.Named{
		{Name: "rate", Value: fmt.Sprintf("%g/s", float64(m.Rate))}, {Name: "for", Value: m.For.String()}, {Name: "users", Value: fmt.Sprint(m.Users)},
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
	err := m.app.WithPublisher("bench", func(p *rabbit.Publisher) error { return m.publish(r, p, bar) })
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
	r.Note("users %d to %d were written; `keyfold bench --clean` erases them", m.first, int(m.first)+m.Users-1)
	return nil
}

func (m *measurement) watched() map[string]int {
	pids := map[string]int{}
	for _, pid := range m.Processes {
		pids[fmt.Sprint("process ", pid)] = pid
	}
	return pids
}

// Pauses between what is published together, between looks at the queue, and between reads
// of the profiles while events are published: ids stay in a profile for much longer.
const (
	publishEvery = 20 * time.Millisecond
	lookEvery    = time.Second
	readEvery    = 10 * time.Second
)

// publish publishes each event when it is due, with those that are due within the same pause.
func (m *measurement) publish(r *report.Report, p *rabbit.Publisher, bar *cli.Progress) error {
	began := time.Now()
	looked, read := began, began
	for i := 0; i < m.events(); {
		select {
		case <-m.app.Ctx.Done():
			return m.app.Ctx.Err()
		case <-time.After(publishEvery):
		}
		var messages []rabbit.Message
		for ; i < m.events(); i++ {
			due := began.Add(time.Duration(float64(i) / float64(m.Rate) * float64(time.Second)))
			if due.After(time.Now()) {
				break
			}
			message, err := m.next(due)
			if err != nil {
				return err
			}
			messages = append(messages, message)
		}
		if err := errors.Join(p.Publish(m.app.Ctx, messages)...); err != nil {
			return app.BrokerUnreached(err)
		}
		bar.At(i)
		if time.Since(looked) >= lookEvery {
			looked = time.Now()
			if err := m.look(r); err != nil {
				return err
			}
		}
		if time.Since(read) >= readEvery {
			read = time.Now()
			if err := m.read(); err != nil {
				return err
			}
		}
	}
	return nil
}

// types are those of the events, by how often they come.
var types = []profile.EventType{profile.ProductView, profile.ProductView, profile.ProductView, profile.ProductClick, profile.ProductPurchase}

// next makes an event of a random user.
func (m *measurement) next(due time.Time) (rabbit.Message, error) {
	i := rand.IntN(m.Users)
	user := m.first + int32(i)
	body := fmt.Appendf(nil, `{"user_id":%d,"event_type":%q,"product_id":%d,"occurred_at":%q,"message_id":%q}`,
		user, types[rand.IntN(len(types))], m.products[rand.IntN(len(m.products))], due.UTC().Format("2006-01-02T15:04:05.000Z"), messageID(user, m.counts[i]))
	m.counts[i]++
	e, err := profile.ParseEvent(body, time.Now())
	if err != nil {
		return rabbit.Message{}, err
	}
	m.due[e.Digest.ID()] = due
	if m.partitions > 0 {
		return rabbit.DefaultNames().SlotMessage(body, &e), nil
	}
	return rabbit.DefaultNames().EventMessage(body, &e), nil
}

// ids is what the message ids begin with. They need not be UUIDs.
const ids = "bench-"

// messageID is that of a user's event. No two measurements have the same user.
func messageID(user int32, event int) string { return fmt.Sprintf("%s%d-%d", ids, user, event) }

// look counts what waits in the queue.
func (m *measurement) look(r *report.Report) error {
	n, err := rabbit.Waiting(m.app.Ctx, m.app.Servers.RabbitMQ, m.partitions)
	if err != nil {
		return app.BrokerUnreached(err)
	}
	m.depths = append(m.depths, n)
	r.Point("queue", "ready", "events", float64(n))
	return nil
}

// read takes the events that are in profiles by now.
func (m *measurement) read() error {
	for users := range slices.Chunk(m.users(), 100) {
		profiles, err := m.store.Load(m.app.Ctx, users)
		if err != nil {
			return err
		}
		for _, p := range profiles {
			if p == nil {
				continue
			}
			for id, write := range p.Applied.All() {
				if due, waits := m.due[id]; waits {
					delete(m.due, id)
					m.toProfile.Add(write.At.Time().Sub(due) - m.ahead)
				}
			}
		}
	}
	return nil
}

// users are those that have events.
func (m *measurement) users() (all []int32) {
	for i, n := range m.counts {
		if n > 0 {
			all = append(all, m.first+int32(i))
		}
	}
	return all
}

// deadLetters counts the events that were given up.
func (m *measurement) deadLetters() (n int, err error) {
	if len(m.due) == 0 {
		return 0, nil
	}
	waits := maps.Clone(m.due)
	err = eachLetter(m.app, func(_ *deadletter.Scan, l *deadletter.Letter) error {
		id := profile.DigestOf(l.ID).ID()
		if _, ok := waits[id]; ok {
			delete(waits, id)
			n++
		}
		return nil
	})
	return n, err
}

// eachLetter calls do with each dead letter of a measurement's event.
func eachLetter(a *app.App, do func(*deadletter.Scan, *deadletter.Letter) error) error {
	return failures.Scan(a, func(s *deadletter.Scan) error {
		for l, err := range failures.Watched(a, s, "reading dead letters") {
			if err != nil {
				return err
			}
			if failures.UserIn(l.Body) < firstUser || len(l.ID) < len(ids) || l.ID[:len(ids)] != ids {
				continue
			}
			if err := do(s, l); err != nil {
				return err
			}
		}
		return context.Cause(a.Ctx)
	})
}
