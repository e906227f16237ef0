package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/embedtest"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
	"keyfold/source/vector/openai"
)

// faulted is an installation that is at fault, and Prometheus's view of it.
type faulted struct {
	*watched
	*scrapes
	vhost string
	n     int // events so far
}

// Each alert fires on what real processes say while its fault lasts, alone with those that the
// same fault causes; before and after none does.
//
// Promise(monitoring/alerts): Each of the 34 alerts fires while its fault lasts, alone with those that
// the same fault causes, and neither before nor after.
// Promise(monitoring/series)
func TestAlertsFireByTheirFaults(t *testing.T) {
	f := newFaulted(t)
	f.aQuietQuarter()
	f.poisoned()
	f.oldEventsOfMissingProducts()
	f.apiFailsAtTwoSearchesAMinute()
	f.apiIsAway()
	f.outboxIsNotPublished()
	f.ingestFails()
	f.storeIsAway()
	f.alarmWhileWorkersOnlyConsume()
	f.lettersAreNotStored()
	f.noWorkerRuns()
	f.prefetchIsUsedUp()
	f.brokerIsAway()
	f.judge()
	f.allAlertsAreCovered()
}

func newFaulted(t *testing.T) *faulted {
	t.Helper()
	t.Parallel()
	broker, store, file := rabbittest.StartWithStatistics(t), mongotest.Start(t), filepath.Join(t.TempDir(), "outbox.db")
	vhost := broker.VHost(t)
	w := &watched{t: t, broker: broker, store: store, outbox: file, apiStack: &apiStack{
		stack: &stack{dsn: broker.DSN(vhost), mongo: store.URI(), products: sample.Products(), history: profile.Mass},
		api:   embedtest.Start(t, embedtest.Config{Dimensions: dimensions, Model: openai.DefaultModel, Key: apiKey, Seed: 7}),
		more:  []string{"--retry-delay=50ms", "--max-retries=20", "--database-url=sqlite://" + file},
	}}
	w.setUpAll()
	w.worker = w.work(t, quick).ready()
	f := &faulted{watched: w, scrapes: newScrapes(t), vhost: vhost}
	f.of("worker-1:9090", w.worker)
	f.targets = append(f.targets, target{"rabbitmq", "rabbitmq:15692", broker.QueueMetricsURL}, target{"rabbitmq-alarms", "rabbitmq:15692", broker.MetricsURL})
	return f
}

// comes publishes events of a type and waits until they are settled.
func (f *faulted) comes(kind profile.EventType, about func(n int) any, at time.Time, many int) {
	f.watched.t.Helper()
	var bodies [][]byte
	for range many {
		f.n++
		bodies = append(bodies, event(int32(f.n%500+1), kind, about(f.n), at, fmt.Sprint("alerts ", f.n)))
	}
	before := f.settledEvents()
	f.publish(f.watched.t, bodies...)
	eventually(f.watched.t, "the events are settled", func() error {
		if n := f.settledEvents() - before; n < int64(many) {
			return fmt.Errorf("%d of %d", n, many)
		}
		return nil
	})
}

func (f *faulted) settledEvents() int64 {
	return f.worker.metric(`keyfold_events_total{outcome="folded"}`) + f.worker.metric(`keyfold_events_total{outcome="product_missing"}`)
}

func viewed(n int) any   { return 1 + n%200 }
func missing(n int) any  { return 900_000 + n }
func searched(n int) any { return fmt.Sprint("grey scarf, size ", n) }

// wellFor lets the fault's end be seen, and as much time pass as the rules look back.
func (f *faulted) wellFor(what string) {
	f.watched.t.Helper()
	f.scrape()
	f.hold(45)
	f.silent("after " + what)
}

func (f *faulted) aQuietQuarter() {
	for range 8 {
		f.comes(profile.ProductView, viewed, time.Now(), 3)
		f.comes(profile.Search, searched, time.Now(), 1)
		f.scrape()
		f.hold(1)
		f.silent("two quiet minutes")
	}
}

func (f *faulted) poisoned() {
	var bodies [][]byte
	for i := range 11 {
		bodies = append(bodies, fmt.Appendf(nil, `{"user_id": "poison %d"}`, i))
	}
	f.publish(f.watched.t, bodies...)
	f.shownByBroker(rabbit.DefaultNames().DeadLetters, 11)
	f.scrape()
	f.fires("poison", []string{"KeyfoldDeadLetters", "KeyfoldDeadLettersWaiting"})
	f.discard()
	f.shownByBroker(rabbit.DefaultNames().DeadLetters, 0)
	f.wellFor("poison")
}

func (f *faulted) discard() {
	f.watched.t.Helper()
	if code, _, errs := f.run(f.watched.t, "", "dlq", "discard", "--yes"); code != 0 {
		f.watched.t.Fatal(errs)
	}
}

// shownByBroker waits until the broker's own metrics have a queue's depth.
func (f *faulted) shownByBroker(queue string, depth float64) {
	f.watched.t.Helper()
	f.figureOfBroker("messages_ready", queue, func(n float64) bool { return n == depth })
}

func (f *faulted) figureOfBroker(figure, queue string, is func(float64) bool) {
	f.watched.t.Helper()
	series := fmt.Sprintf("rabbitmq_detailed_queue_%s{vhost=%q,queue=%q}", figure, f.vhost, queue)
	eventually(f.watched.t, "the broker shows it: "+series, func() error {
		page, err := readPage(f.broker.QueueMetricsURL())
		if n, shown := page[series]; err == nil && (!shown || !is(n)) {
			err = fmt.Errorf("%v", n)
		}
		return err
	})
}

func (f *faulted) oldEventsOfMissingProducts() {
	for range 16 {
		f.comes(profile.ProductView, viewed, hourAgo(), 20)
		f.comes(profile.ProductView, missing, hourAgo(), 4)
		f.scrape()
		f.hold(1)
	}
	f.fires("old events, some of products that are missing", []string{"KeyfoldProductsMissing", "KeyfoldProfilesLate"})
	f.wellFor("old events")
}

func (f *faulted) apiFailsAtTwoSearchesAMinute() {
	f.api.SetFaults(embedtest.Faults{ServerError: 0.45})
	for f.worker.metric(`keyfold_embedding_failures_total{kind="transient"}`) < 8 {
		f.comes(profile.Search, searched, time.Now(), 2)
		f.scrape()
	}
	f.api.SetFaults(embedtest.Faults{})
	f.scrape()
	f.hold(6)
	f.fires("an API that fails at two searches a minute", []string{"KeyfoldEmbeddingRequestsFail"})
	f.wellFor("an API that fails in part")
}

func (f *faulted) apiIsAway() {
	f.api.SetFaults(embedtest.Faults{Status: http.StatusServiceUnavailable, Message: "overloaded"})
	eventually(f.watched.t, "the breaker of the API opens", func() error {
		f.n++
		f.publish(f.watched.t, event(int32(f.n%500+1), profile.Search, searched(f.n), time.Now(), fmt.Sprint("alerts ", f.n)))
		if f.worker.metric(`keyfold_breaker_open{dependency="embedding_api"}`) != 1 {
			return errors.New("closed")
		}
		return nil
	})
	f.scrape(`worker-1:9090 keyfold_breaker_open{dependency="embedding_api"}`)
	f.hold(6)
	f.fires("an API that is away", []string{"KeyfoldEmbeddingServiceDown"}, "KeyfoldEmbeddingRequestsFail")
	f.api.SetFaults(embedtest.Faults{})
	f.wellFor("an API that is away")
}

func (f *faulted) outboxIsNotPublished() {
	t := f.watched.t
	api := startDaemon(t, f.flags(f.args("ingest", "--http-addr=127.0.0.1:0")...)...).ready()
	f.of("ingest-1:9090", api)
	f.scrape()
	f.silent("an ingest without events")
	api.accepted(sample.Events(sample.DefaultConfig(2))[:2]...)
	db, err := sql.Open("sqlite", f.outbox)
	must.OK(t, err)
	defer db.Close()
	_, err = db.Exec("UPDATE user_interactions SET created_at = ? WHERE id = 1", time.Now().Add(-150*time.Second).UTC().Format("2006-01-02 15:04:05.000"))
	must.OK(t, err)
	_, err = db.Exec("UPDATE user_interactions SET failed_at = created_at, last_error = 'no' WHERE id = 2")
	must.OK(t, err)
	shown := func(unsent, failed int64) {
		t.Helper()
		eventually(t, "the outbox is counted", func() error {
			if u, n := api.metric("keyfold_outbox_unsent"), api.metric("keyfold_outbox_failed"); u != unsent || n != failed {
				return fmt.Errorf("%d unsent, %d failed", u, n)
			}
			return nil
		})
		f.scrape()
	}
	shown(1, 1)
	f.hold(2)
	f.fires("an outbox that is not published", []string{"KeyfoldOutboxNotPublished", "KeyfoldOutboxRowsSetAside"})
	_, err = db.Exec("DELETE FROM user_interactions")
	must.OK(t, err)
	shown(0, 0)
	f.wellFor("an outbox that is not published")
	api.stop()
	f.gone("ingest-1:9090")
}

func (f *faulted) ingestFails() {
	t := f.watched.t
	api := startDaemon(t, f.flags(f.args("ingest", "--http-addr=127.0.0.1:0", "--database-url=mysql://shop:s3cret@127.0.0.1:1/shop")...)...)
	f.of("ingest-2:9090", api)
	body := sample.Events(sample.DefaultConfig(1))[0]
	api.url() // once it listens
	for range 6 {
		for range 20 {
			if a := api.post(body); a.Code != http.StatusServiceUnavailable {
				t.Fatalf("without a database: %d %s", a.Code, a.Text)
			}
		}
		f.scrape("ingest-2:9090 keyfold_ready")
		f.hold(1)
	}
	f.fires("an ingest without its database", []string{"KeyfoldIngestFails", "KeyfoldNotReady"})
	api.stop()
	f.gone("ingest-2:9090")
	f.wellFor("an ingest without its database")
}

func (f *faulted) storeIsAway() {
	serve := startDaemon(f.watched.t, f.flags(f.args("serve", "--http-addr=127.0.0.1:0")...)...).ready()
	f.of("serve-1:9090", serve)
	f.scrape()
	must.OK(f.watched.t, f.store.RefuseConnections(0), f.store.Disconnect())
	f.publish(f.watched.t, event(1, profile.ProductView, 7, time.Now(), "while the store is away"))
	f.scrape("worker-1:9090 keyfold_ready", `worker-1:9090 keyfold_breaker_open{dependency="store"}`,
		"serve-1:9090 keyfold_recommend_catalogue_fault")
	f.hold(6)
	f.fires("a store that is away", []string{"KeyfoldCatalogueNotFollowed", "KeyfoldNotReady", "KeyfoldStoreDown"}, "KeyfoldNoConsumers")
	must.OK(f.watched.t, f.store.AcceptConnections())
	f.worker.ready()
	f.shownByBroker(rabbit.DefaultNames().Queue, 0)
	f.wellFor("a store that is away")
	serve.stop()
	f.gone("serve-1:9090")
}

func (f *faulted) lettersAreNotStored() {
	letters := rabbit.DefaultNames().DeadLetters
	f.broker.DeleteQueue(f.watched.t, f.vhost, letters)
	f.publish(f.watched.t, []byte(`{"user_id": "a letter without a queue"}`))
	unstored := func(want int64) {
		f.watched.t.Helper()
		eventually(f.watched.t, "the letters that wait are counted", func() error {
			if n := f.worker.metric("keyfold_dead_letters_unstored"); n != want {
				return fmt.Errorf("%d", n)
			}
			return nil
		})
	}
	unstored(1)
	f.scrape()
	f.hold(6)
	f.fires("dead letters that are not stored", []string{"KeyfoldDeadLettersNotStored"})
	f.alarmOfTheBroker()
	if code, _, errs := f.run(f.watched.t, "", "setup"); code != 0 {
		f.watched.t.Fatal(errs)
	}
	unstored(0)
	f.discard()
	f.shownByBroker(letters, 0)
	f.wellFor("dead letters that are not stored")
}

// alarmWhileWorkersOnlyConsume comes while no process of keyfold publishes: only the broker
// knows of it.
func (f *faulted) alarmWhileWorkersOnlyConsume() {
	for alarm, raise := range map[string]func(on bool){
		"memory_used_watermark":     func(on bool) { f.broker.Alarm(f.watched.t, on) },
		"free_disk_space_watermark": func(on bool) { f.broker.DiskAlarm(f.watched.t, on) },
	} {
		raise(true)
		f.scrape("rabbitmq:15692 rabbitmq_alarms_" + alarm)
		f.hold(6)
		f.fires("an alarm of the broker while nothing is published: "+alarm, []string{"KeyfoldPublishingBlocked"})
		raise(false)
		f.wellFor("an alarm while nothing is published: " + alarm)
	}
}

// alarmOfTheBroker comes while a letter waits: RabbitMQ blocks a connection when it publishes.
func (f *faulted) alarmOfTheBroker() {
	f.broker.Alarm(f.watched.t, true)
	f.scrape("rabbitmq:15692 rabbitmq_alarms_memory_used_watermark", "worker-1:9090 keyfold_rabbitmq_publisher_blocked")
	f.hold(6)
	f.fires("an alarm of the broker", []string{"KeyfoldDeadLettersNotStored", "KeyfoldPublishingBlocked"})
	f.broker.Alarm(f.watched.t, false)
	f.scrape()
}

// backlog is above what KeyfoldQueueLong bears.
const backlog = 5100

func (f *faulted) noWorkerRuns() {
	f.worker.stop()
	var bodies [][]byte
	for range backlog {
		f.n++
		bodies = append(bodies, event(int32(f.n), profile.ProductView, viewed(f.n), time.Now(), fmt.Sprint("alerts ", f.n)))
	}
	f.publish(f.watched.t, bodies...)
	f.shownByBroker(rabbit.DefaultNames().Queue, backlog)
	f.scrape("worker-1:9090 up")
	f.hold(6)
	f.fires("no worker runs", []string{"KeyfoldDown", "KeyfoldNoConsumers", "KeyfoldQueueLong"})
}

// prefetchIsUsedUp has a store that answers late.
func (f *faulted) prefetchIsUsedUp() {
	t := f.watched.t
	f.gone("worker-1:9090")
	const prefetch = 100
	f.worker = f.work(t, quick, fmt.Sprint("--prefetch=", prefetch))
	f.of("worker-2:9090", f.worker)
	late, err := f.store.Inject(mongotest.Fault{Commands: []string{"insert", "update", "bulkWrite"}, BlockConnection: true, BlockTimeMS: 3000})
	must.OK(t, err)
	f.figureOfBroker("consumers", rabbit.DefaultNames().Queue, func(n float64) bool { return n > 0 })
	eventually(t, "a scrape shows that the worker holds its prefetch", func() error {
		f.scrape()
		const name = "keyfold_rabbitmq_"
		now := map[string]string{}
		for series, all := range f.series {
			if metric, ok := strings.CutPrefix(series, name); ok && strings.Contains(series, "worker-2") {
				metric, _, _ = strings.Cut(metric, "{")
				now[metric] = all[len(all)-1]
			}
		}
		if now["prefetch"] == fmt.Sprint(prefetch) && now["room"] == "0" {
			return nil
		}
		return errors.New("not yet")
	})
	f.hold(11)
	f.fires("a worker that holds its prefetch", []string{"KeyfoldPrefetchExhausted"}, "KeyfoldQueueLong", "KeyfoldProfilesLate")
	must.OK(t, f.store.Remove(late))
}

func (f *faulted) brokerIsAway() {
	f.broker.Kill()
	f.scrape("rabbitmq:15692 up", "rabbitmq:15692 up", "worker-2:9090 keyfold_rabbitmq_connected", "worker-2:9090 keyfold_ready")
	f.hold(6)
	f.fires("a broker that is away", []string{"KeyfoldConsumerNotConnected", "KeyfoldNotReady", "KeyfoldQueuesUnseen"}, "KeyfoldPrefetchExhausted", "KeyfoldQueueLong", "KeyfoldProfilesLate")
	must.OK(f.watched.t, f.broker.Boot())
	f.worker.ready()
}

var alertName = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)

// allAlertsAreCovered finds alerts that no fault fires, here or in the other test.
func (f *faulted) allAlertsAreCovered() {
	text, err := os.ReadFile("../../deploy/alerts.yml")
	must.OK(f.watched.t, err)
	for _, found := range alertName.FindAllStringSubmatch(string(text), -1) {
		others := slices.Concat(alertsOfOthers, alertsOfStreams)
		if alert := found[1]; f.expected(alert) == slices.Contains(others, alert) {
			f.watched.t.Errorf("%s: fired here: %t; those of the other tests are %v", alert, f.expected(alert), others)
		}
	}
}
