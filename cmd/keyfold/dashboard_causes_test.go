package main

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/pgtest"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

var needs = regexp.MustCompile(`(?s)<section id="needs".*?</section>`)

// overviewNames waits until the first page has all that `status` says of a fault: its words, and the
// runbook's section in place of the anchor.
func overviewNames(t *testing.T, pages, fault string, words ...string) {
	t.Helper()
	eventually(t, "the overview shows: "+fault, func() error {
		res, err := http.Get(pages + "/")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		page, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %w", res.Status, err)
		}
		text := strings.Join(strings.Fields(html.UnescapeString(pageMarkup.ReplaceAllString(needs.FindString(string(page)), " "))), " ")
		for _, word := range words {
			if !shown(text, word) {
				return fmt.Errorf("no %q in\n%s", word, text)
			}
		}
		return nil
	})
}

// shown reports whether a page has what is on the screen of `status`.
func shown(text, word string) bool {
	plain := func(s string) string { return strings.ReplaceAll(s, "`", "") }
	if _, anchor, is := strings.Cut(word, "RUNBOOK.md#"); is {
		return strings.Contains(strings.ToLower(strings.ReplaceAll(text, " ", "")), "runbook:"+strings.ReplaceAll(anchor, "-", ""))
	}
	about, what, two := strings.Cut(strings.TrimPrefix(word, "✗ "), ": ")
	return strings.HasPrefix(word, "✗ ") && two && strings.Contains(text, about+" "+plain(what)) || strings.Contains(text, plain(word))
}

// A newcomer finds the cause and its cure from the first page alone. Those of a store, an embedding
// API, an outbox and a poison stream are in TestStatusNamesEachFault.
//
// Promise(dashboard/causes): The overview alone names cause, cure and runbook of a server down, dead letters, a stuck outbox,
// an unread queue, a hot user, tight caps.
func TestDashboardNamesBrokerAndHotUser(t *testing.T) {
	t.Parallel()
	w := watchedAt(t, rabbittest.StartWithStatistics(t))
	_, w.pages = w.startDashboard()
	w.during("hot user", w.userFloods)
	w.during("broker down", w.brokerAway)
}

func (w *watched) userFloods() {
	var bodies [][]byte
	for i := range 1500 {
		user := int32(17)
		if i%3 == 0 {
			user = int32(1000 + i)
		}
		bodies = append(bodies, event(user, profile.ProductView, 1+i%200, time.Now(), fmt.Sprint("flood ", i)))
	}
	w.publish(w.t, bodies...)
	w.shows("a hot user", []string{"users: user 17 made at least ", "more workers do not help", "`keyfold user show`", "`keyfold user forget`", "RUNBOOK.md#a-hot-user"})
}

func (w *watched) brokerAway() {
	w.broker.Kill()
	w.shows("the broker is away", []string{
		"✗ RabbitMQ: RabbitMQ does not listen at its address; check that it runs, and that RABBITMQ_DSN has its host and port", "RUNBOOK.md#connection-refused", "not ready: ",
	})
	must.OK(w.t, w.broker.Boot())
	w.worker.ready()
}

// Promise(dashboard/causes)
func TestDashboardNamesAStoppedPartition(t *testing.T) {
	t.Parallel()
	broker := rabbittest.SharedWithStatistics(t)
	s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t, "--partitions=4")
	first := s.work(t, quick, "--partitions=4", "--worker-partitions=0-1").ready()
	second := s.work(t, quick, "--partitions=4", "--worker-partitions=2-3").ready()
	startDaemon(t, append([]string{"partition"}, s.flags()...)...).ready()
	pages := pagesOf(t, s.flags("--partitions=4", "--rabbitmq-management-url="+broker.ManagementURL(), "--processes="+first.admin()+","+second.admin())...)
	shows(t, pages+"/workers", "4 partitions of 2 workers", "00 A", "01 A", "02 B", "03 B", "2 A", "2 B")
	eventually(t, "nothing needs a person", func() error {
		if code, out, errs := s.run(t, "", "status", "--partitions=4", "--rabbitmq-management-url", broker.ManagementURL()); code != 0 {
			return fmt.Errorf("%s%s", out, errs)
		}
		return nil
	})
	if code := second.stop(); code != 0 {
		t.Fatalf("the worker ended with %d", code)
	}
	s.publish(t, sample.Events(sample.DefaultConfig(200))...)
	names := rabbit.DefaultNames()
	overviewNames(t, pages, "partitions are not read",
		"no process consumes from "+names.PartitionQueue(2)+", "+names.PartitionQueue(3)+", where ", "messages are ready", "start workers", "WORKER_PARTITIONS", "RUNBOOK.md#keyfoldnoconsumers")
	shows(t, pages+"/workers", "2 partitions of 1 worker", "no answer")
}

// Promise(dashboard/causes)
func TestDashboardNamesTightCaps(t *testing.T) {
	t.Parallel()
	broker, server := rabbittest.Shared(t), pgtest.Shared(t)
	n := &notifyStack{vhost: broker.VHost(t), database: server.URL(server.Database(t, ""))}
	n.dsn = broker.DSN(n.vhost)
	s := &stack{dsn: n.dsn, mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
	s.setUp(t)
	n.must(t, "setup")
	n.publishUnchecked(t, `{"version":"tight","policy":{"caps":{"5m":1,"1h":1,"24h":1}},"rules":[]}`, 1)
	worker := n.service(t, "work").ready()
	flags := s.flags("--notify-database-url="+n.database, "--processes="+worker.admin())
	pages := pagesOf(t, flags...)
	for i := range 60 {
		n.postTo(t, fmt.Sprint("user-", i%10), "PROMO", fmt.Sprintf("offer %d of the %d ones", i, i*i))
	}
	words := []string{"caps: caps and limits held back ", "`keyfold notify rules show`", "`keyfold notify rules publish`", "RUNBOOK.md#tight-caps"}
	eventually(t, "status shows tight caps", func() error {
		code, out, errs := keyfold(t.Context(), "", append([]string{"status"}, flags...)...)
		for _, word := range words {
			if code != 1 || !strings.Contains(out, word) {
				return fmt.Errorf("exit code %d, no %q in\n%s%s", code, word, out, errs)
			}
		}
		return nil
	})
	overviewNames(t, pages, "tight caps", words...)
}

// admin returns the address of a daemon's admin endpoint.
func (d *daemon) admin() string { return adminAddr.FindStringSubmatch(d.log.String())[1] }
