package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/internal/testserver/redistest"
	"keyfold/service/notify/broker"

	"keyfold/engine"
	"keyfold/engine/notify"
	"keyfold/engine/profile"
	"keyfold/sink/ledger/postgres"
	"keyfold/sink/ledgertest"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// alertsOfOthers are those that TestAlertsOfNotificationsAndStages fires.
var alertsOfOthers = []string{
	"KeyfoldEventsNotPartitioned", "KeyfoldNotifyDeferralsLate", "KeyfoldNotifyFewDaysAhead", "KeyfoldNotifyFilterFull",
	"KeyfoldNotifyLedgerDown", "KeyfoldNotifyQueueLong", "KeyfoldNotifyRulesFault", "KeyfoldNotifyUndispatched",
	"KeyfoldNotifyUnreported", "KeyfoldNotifyUrgentLate", "KeyfoldStoreFailures",
}

// notifyFaults is an installation of notifications that is at fault, and Prometheus's view of it.
type notifyFaults struct {
	*notifyStack
	*scrapes
	broker *rabbittest.Broker
	server *pgtest.Server
	worker *daemon
	n      int // notifications so far
}

// TestAlertsFireByTheirFaults, of notifications, of the stage in front of partitions, and of
// a store of which a part fails.
//
// Promise(monitoring/alerts)
func TestAlertsOfNotificationsAndStages(t *testing.T) {
	t.Parallel()
	f := &notifyFaults{scrapes: newScrapes(t), broker: rabbittest.SharedWithStatistics(t), server: pgtest.Start(t)}
	f.notifyStack = &notifyStack{vhost: f.broker.VHost(t), database: f.server.URL(f.server.Database(t, ""))}
	f.dsn = f.broker.DSN(f.vhost)
	f.must(t, "setup")
	f.worker = f.service(t, "work").ready()
	f.of("notifier-1:9090", f.worker)
	f.targets = append(f.targets, target{"rabbitmq", "rabbitmq:15692", f.queueMetricsURL})
	f.aQuietQuarter()
	f.rulesOfALaterVersion()
	f.urgentOnesComeLate()
	f.deferralsAreLate()
	f.filterIsFull()
	f.slotsHaveNoQueue()
	f.partOfTheStoreFails()
	f.ledgerIsNeglected()
	f.ledgerIsAway()
	f.judge()
	for _, alert := range alertsOfOthers {
		if !f.expected(alert) {
			f.t.Errorf("no fault fires %s", alert)
		}
	}
}

// queueMetricsURL leaves out the queues of other tests.
func (f *notifyFaults) queueMetricsURL() string {
	return f.broker.QueueMetricsURL() + "&vhost=" + f.vhost
}

// wellFor lets the fault's end be seen, and as much time pass as the rules look back.
func (f *notifyFaults) wellFor(what string) {
	f.t.Helper()
	f.scrape()
	f.hold(20)
	f.silent("after " + what)
}

// reaches waits until a gauge or counter of a daemon is at least as much.
func (f *notifyFaults) reaches(d *daemon, series string, least int64) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%s is %d", series, least), func() error {
		if n := d.metric(series); n < least {
			return fmt.Errorf("%d\n%s", n, d.log)
		}
		return nil
	})
}

// messages are notifications of different users, made some time ago.
func (f *notifyFaults) messages(many int, kind string, age time.Duration) (all []rabbit.Message) {
	f.t.Helper()
	for range many {
		f.n++
		e, err := notify.Parse(fmt.Appendf(nil, `{"event_id":%q,"user_id":"user-%d","event_type":%q,"title":"notification %d","source":"test","channel":["push"],"timestamp":%q}`,
			uuid.New(), f.n, kind, f.n, time.Now().Add(-age).UTC().Format(time.RFC3339Nano)), engine.Now())
		must.OK(f.t, err)
		all = append(all, broker.EventMessage(e))
	}
	return all
}

func (f *notifyFaults) publish(all []rabbit.Message) {
	f.t.Helper()
	p := rabbit.NewPublisher(f.dsn, rabbit.ThisProcess("test"), "test", rabbit.Timing{}, slog.New(slog.DiscardHandler))
	for len(all) > 0 {
		n := min(1000, len(all))
		must.OK(f.t, errors.Join(p.Publish(f.t.Context(), all[:n])...))
		all = all[n:]
	}
	must.OK(f.t, p.Close(f.t.Context()))
}

const handedOver = `keyfold_notify_event_to_dispatch_seconds_count{class="urgent"}`

// urgent publishes urgent notifications and waits until they are handed over.
func (f *notifyFaults) urgent(age time.Duration) {
	f.t.Helper()
	want := max(0, f.worker.metric(handedOver)) + 2
	f.publish(f.messages(2, "SECURITY", age))
	f.reaches(f.worker, handedOver, want)
}

func (f *notifyFaults) aQuietQuarter() {
	for range 8 {
		f.urgent(0)
		f.scrape()
		f.hold(1)
		f.silent("two quiet minutes")
	}
}

func (f *notifyFaults) rulesOfALaterVersion() {
	f.publishUnchecked(f.t, `{"version":"later","rules":[],"moods":{}}`, 1)
	f.reaches(f.worker, "keyfold_notify_rules_fault", 1)
	f.scrape()
	f.hold(3)
	f.fires("rules of a later version", []string{"KeyfoldNotifyRulesFault"})
	f.must(f.t, "rules", "rollback", "1")
	f.reaches(f.worker, "keyfold_notify_rules_version", 3)
	f.wellFor("rules of a later version")
}

func (f *notifyFaults) urgentOnesComeLate() {
	for range 4 {
		f.urgent(time.Minute)
		f.scrape()
		f.hold(2)
	}
	f.fires("urgent notifications that come late", []string{"KeyfoldNotifyUrgentLate"})
	f.wellFor("urgent notifications that come late")
}

// store stores one decision of each user at an instant; what is NOW has been handed over where
// that is said.
func (f *notifyFaults) store(many int, outcome notify.Outcome, at, due engine.Millis, dispatched bool) {
	f.t.Helper()
	l, err := postgres.Open(f.database, 1)
	must.OK(f.t, err)
	defer func() { _ = l.Close() }()
	_, err = l.EnsurePartitions(f.t.Context(), at, 1)
	must.OK(f.t, err)
	var changes []notify.Change
	var marks []notify.DispatchMark
	for range many {
		f.n++
		user := fmt.Sprint("stored-", f.n)
		d := ledgertest.Decide(ledgertest.Event(user, notify.Update, at), 1, 0, outcome, at)
		if outcome == notify.Later {
			d.Record.DeferUntil = due
		}
		changes = append(changes, notify.Change{User: user, State: &notify.State{DecidedAt: at}, Decided: []notify.Decided{d}})
		if dispatched {
			marks = append(marks, ledgertest.Dispatched(d.Event.ID)...)
		}
	}
	must.OK(f.t, errors.Join(l.Commit(f.t.Context(), changes, nil)...))
	if dispatched {
		must.OK(f.t, errors.Join(l.Commit(f.t.Context(), nil, marks)...))
	}
}

func (f *notifyFaults) deferralsAreLate() {
	const decided = "keyfold_notify_deferral_lag_seconds_count"
	for range 4 {
		want := max(0, f.worker.metric(decided)) + 2
		now := engine.Now()
		f.store(2, notify.Later, now-200_000, now-150_000, false)
		f.reaches(f.worker, decided, want)
		f.scrape()
		f.hold(3)
	}
	f.fires("deferrals that are decided late", []string{"KeyfoldNotifyDeferralsLate"})
	f.wellFor("deferrals that are decided late")
}

func (f *notifyFaults) filterIsFull() {
	redis := redistest.Start(f.t)
	api := f.service(f.t, "serve", "--http-addr=127.0.0.1:0", "--notify-redis-url="+redis.URL(), "--notify-bloom-capacity=1000").ready()
	f.of("notify-api:9090", api)
	posted := 0
	eventually(f.t, "the filter is seen to be filled", func() error {
		_, page := api.get("/metrics")
		var fill float64
		for line := range strings.Lines(page) {
			if rest, ok := strings.CutPrefix(line, "keyfold_notify_bloom_fill_ratio "); ok {
				fmt.Sscan(rest, &fill)
			}
		}
		for ; fill <= 0.6 && posted < 650; posted++ {
			if status, _ := api.call("POST", "/v1/notifications", "", urgentNow(uuid.New(), fmt.Sprint("posted-", posted), "Your code"), nil); status != 202 {
				return fmt.Errorf("status %d", status)
			}
		}
		if fill <= 0.6 {
			return fmt.Errorf("%v", fill)
		}
		return nil
	})
	f.scrape()
	f.hold(31)
	f.fires("a filter for fewer notifications than come", []string{"KeyfoldNotifyFilterFull"}, "KeyfoldNotifyUrgentLate")
	api.stop()
	f.gone("notify-api:9090")
	f.wellFor("a filter for fewer notifications than come")
}

// ledgerIsNeglected has a worker begin on a ledger without coming days, without a queue for the
// senders, who report nothing: it looks at the ledger when it begins.
func (f *notifyFaults) ledgerIsNeglected() {
	f.worker.stop()
	f.gone("notifier-1:9090")
	now := engine.Now()
	f.store(1001, notify.Now, now-2*3_600_000, 0, true)
	f.store(1, notify.Now, now-600_000, 0, false)
	f.broker.DeleteQueue(f.t, f.vhost, "notification_dispatch.push")
	conn, err := pgx.Connect(f.t.Context(), f.database)
	must.OK(f.t, err)
	for ahead := 2; ahead <= 7; ahead++ {
		_, err = conn.Exec(f.t.Context(), "DROP TABLE IF EXISTS "+now.Time().UTC().AddDate(0, 0, ahead).Format("notify_decisions_20060102"))
		must.OK(f.t, err)
	}
	must.OK(f.t, conn.Close(f.t.Context()))
	second := f.service(f.t, "work")
	f.of("notifier-2:9090", second)
	f.reaches(second, "keyfold_notify_unreported", 1001)
	f.publish(f.messages(1, "SECURITY", 0)) // whose hand-over fails
	f.reaches(second, "keyfold_notify_oldest_undispatched_seconds", 600)
	f.scrape("notifier-2:9090 keyfold_ready")
	f.hold(61)
	f.fires("a ledger that is neglected", []string{"KeyfoldNotifyFewDaysAhead", "KeyfoldNotifyUndispatched", "KeyfoldNotifyUnreported", "KeyfoldNotReady"}, "KeyfoldNoConsumers")
	second.stop()
	f.gone("notifier-2:9090")
	f.must(f.t, "setup")
	f.worker = f.service(f.t, "work").ready()
	f.of("notifier-3:9090", f.worker)
}

// slotsHaveNoQueue has the stage in front of partitions miss a queue.
func (f *notifyFaults) slotsHaveNoQueue() {
	vhost := f.broker.VHost(f.t)
	s := &stack{dsn: f.broker.DSN(vhost), mongo: mongotest.Start(f.t).URI(), history: profile.Mass}
	if code, _, errs := s.run(f.t, "", "setup", "--partitions=1"); code != 0 {
		f.t.Fatal(errs)
	}
	f.broker.DeleteQueue(f.t, vhost, rabbit.DefaultNames().PartitionQueue(0))
	stage := startDaemon(f.t, append([]string{"partition"}, s.flags()...)...).ready()
	f.of("partition-1:9090", stage)
	f.scrape()
	s.publish(f.t, event(1, profile.ProductView, 1, time.Now(), "no queue"))
	const unroutable = `keyfold_partitioned_failures_total{cause="unroutable"}`
	for range 3 {
		f.reaches(stage, unroutable, stage.metric(unroutable)+1)
		f.scrape("partition-1:9090 keyfold_ready")
		f.hold(2)
	}
	f.fires("a partition without its queue", []string{"KeyfoldEventsNotPartitioned", "KeyfoldNotReady"})
	stage.stop()
	f.gone("partition-1:9090")
}

// partOfTheStoreFails has MongoDB refuse the writes of a part of the users, as where one of its
// shards is lost. Flushes of such users alone, three in a row, open the breaker until a probe has
// been answered, never from one scrape to the next.
func (f *notifyFaults) partOfTheStoreFails() {
	store := mongotest.Start(f.t)
	s := &stack{dsn: f.broker.DSN(f.broker.VHost(f.t)), mongo: store.URI(), products: sample.Products(), history: profile.Mass}
	const later = "--retry-delay=60s" // or refused events come back and are written alone
	s.setUp(f.t, later)
	match, err := bson.Marshal(bson.D{{Key: "user_id", Value: bson.D{{Key: "$gte", Value: int32(100_000)}}}})
	must.OK(f.t, err)
	refusing, err := store.Inject(mongotest.Fault{WriteError: 14, Namespace: "keyfold.user_embeddings", Match: match})
	must.OK(f.t, err)
	worker := s.work(f.t, quick, later).ready()
	f.of("worker-1:9090", worker)
	f.scrape()
	const failed, each = "keyfold_store_failures_total", 160
	for round := range 8 {
		var bodies [][]byte
		for i := range each {
			n := round*each + i
			bodies = append(bodies, event(int32(100_000+n), profile.ProductView, 1+n%200, time.Now(), fmt.Sprint("refused ", n)))
			for other := range 6 { // so that few flushes have the users of that part alone
				bodies = append(bodies, event(int32(1+6*n+other), profile.ProductView, 1+n%200, time.Now(), fmt.Sprint("taken ", n, other)))
			}
		}
		want := worker.metric(failed) + each
		s.publish(f.t, bodies...)
		f.reaches(worker, failed, want)
		f.scrape()
		f.hold(1)
	}
	// What is refused is held for its next attempt: a slow machine's scrapes find the prefetch used up.
	f.fires("a part of the store fails", []string{"KeyfoldStoreFailures"}, "KeyfoldPrefetchExhausted")
	must.OK(f.t, store.Remove(refusing))
	eventually(f.t, "nothing is held", func() error { // or a slow machine's stop leaves it to the broker
		if n := worker.metric("keyfold_held_events"); n != 0 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	worker.stop()
	f.gone("worker-1:9090")
}

// ledgerIsAway has notifications wait at the broker, more than KeyfoldNotifyQueueLong bears.
func (f *notifyFaults) ledgerIsAway() {
	f.server.Kill()
	f.publish(f.messages(1, "UPDATE", 0))
	f.reaches(f.worker, `keyfold_breaker_open{dependency="ledger"}`, 1)
	bulk := broker.Bulk().Queue
	f.publish(f.messages(backlog, "UPDATE", 0))
	series := fmt.Sprintf("rabbitmq_detailed_queue_messages_ready{vhost=%q,queue=%q}", f.vhost, bulk)
	eventually(f.t, "the broker shows them", func() error {
		page, err := readPage(f.queueMetricsURL())
		if n := page[series]; err == nil && n < backlog-50 {
			err = fmt.Errorf("%v", n)
		}
		return err
	})
	f.scrape("notifier-3:9090 keyfold_ready", `notifier-3:9090 keyfold_breaker_open{dependency="ledger"}`)
	f.hold(6)
	f.fires("PostgreSQL is away", []string{"KeyfoldNotifyLedgerDown", "KeyfoldNotifyQueueLong", "KeyfoldNotReady"}, "KeyfoldNoConsumers", "KeyfoldNotifyUndispatched", "KeyfoldNotifyUnreported")
	ch, hangUp := (&stack{dsn: f.dsn}).channel(f.t)
	defer hangUp()
	_, err := ch.QueuePurge(bulk, false) // or the worker decides them all
	must.OK(f.t, err)
	f.server.Restart(f.t)
	f.worker.ready()
}
