package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"keyfold/bench/workload"
	"keyfold/proof/stack"
	"keyfold/service/notify/ruleset"

	"keyfold/engine/failpoint"
	"keyfold/engine/notify"
)

// notifyCmd is the soak of notifications.
type notifyCmd struct {
	Settings notifySettings `embed:""`
	Keep     bool           `help:"Keep logs and data also where nothing is wrong."`
}

// notifySettings say what a run is.
type notifySettings struct {
	Seed     uint64        `help:"Of the plan and the events; 0: a new one, which is printed."`
	Duration time.Duration `default:"45m" help:"How long faults are brought. 45m is 220 kills; other durations have their share."`
	Kills    int           `help:"kill -9 in all; 0: as the duration has them."`
	Directed bool          `help:"Instead of a plan: each failpoint once."`
	Workers  int           `default:"2" help:"Workers at most at once; scaling goes down to one."`
	APIs     int           `name:"apis" default:"2" help:"Processes of the API."`
	Rate     int           `default:"60" help:"Events a second."`
	Users    int           `default:"300" help:"Users the events are spread over."`
	Race     bool          `help:"Build the processes with the race detector."`

	Mix       mix       `kong:"-"`
	AllPoints bool      `kong:"-"` // after the plan, go to the failpoints it has missed
	Dir       string    `kong:"-"` // for logs and data
	Programs  string    `kong:"-"` // folder of what was built before; "": the run builds
	Out       io.Writer `kong:"-"`
}

// notifyMix is that of 45 minutes: 220 kills.
var notifyMix = mix{
	killWorker: 120, killAPI: 40, killPoller: 30, killBroker: 14, killLedger: 16,
	terminate: 12, scale: 6, arm: 26,
}

// Run soaks once, in a folder of its own, which is kept where something is wrong.
func (c *notifyCmd) Run(ctx context.Context) error {
	s := c.Settings
	s.Seed, s.Out = seedOr(s.Seed), os.Stdout
	part := float64(s.Duration) / float64(wholeRun)
	if s.Kills > 0 {
		part = float64(s.Kills) / float64(notifyMix.kills())
	}
	s.Mix, s.AllPoints = notifyMix.over(part), true
	return inFolder(s.Out, s.Seed, c.Keep, "every event decided once, every NOW dispatched under one id", func(dir string) error {
		s.Dir = dir
		result, err := runNotify(ctx, s)
		if result != nil {
			result.report()
		}
		return err
	})
}

// notifySoak is one run.
type notifySoak struct {
	notifySettings
	*session
	workers *fleet
	apis    *fleet
	posts   []string // addresses of the APIs, by slot
	feed    *notifyFeed
	laws    *workload.Laws
	senders *workload.Senders
	reports *notifyReports
	// published counts the sets of rules that were published, lost answers included.
	published atomic.Int64
	findings  *workload.Findings
	took      time.Duration
}

// minutes are the times of digests: one each minute, so that a digest is due soon.
func minutes() string {
	var all []string
	for m := range 24 * 60 {
		all = append(all, fmt.Sprintf("%02d:%02d", m/60, m%60))
	}
	return strings.Join(all, ",")
}

// runNotify is one soak, from the first server to the verdict.
func runNotify(ctx context.Context, c notifySettings) (s *notifySoak, err error) {
	s = &notifySoak{notifySettings: c, session: newSession(stack.ForNotifications(c.Dir), c.Out)}
	defer func() {
		if err != nil && s.feed != nil {
			s.feed.given.Store(true)
		}
		err = errors.Join(err, s.Close())
	}()
	if err := s.prepare(ctx); err != nil {
		return s, err
	}
	feeding, stop := context.WithCancel(ctx)
	defer stop()
	fed := make(chan error, 1)
	go func() { fed <- s.feed.run(feeding) }()
	var exchanging sync.WaitGroup
	exchanging.Go(func() { s.exchange(feeding) })
	p := notifySchedule{notifySoak: s}
	if !s.Directed {
		err = p.follow(ctx, planThrough(s.Seed, s.Mix, s.Duration, s.Workers, workerPoints), s.Duration, p.do)
	}
	if err == nil && (s.Directed || s.AllPoints) {
		err = p.visit(ctx)
	}
	stop()
	exchanging.Wait()
	s.took = time.Since(s.began)
	if err = errors.Join(err, <-fed); err != nil {
		return s, err
	}
	return s, s.conclude(ctx)
}

func (s *notifySoak) prepare(ctx context.Context) error {
	hours := ruleset.Hours{Zone: "UTC", Morning: "08:00", Digests: minutes()}
	local, err := hours.Local()
	if err != nil {
		return err
	}
	if s.laws, err = workload.NewLaws(soakRules, "", local); err != nil {
		return err
	}
	s.Stack.Programs, s.Build, s.LedgerArgs = s.Programs, failpoints, []string{"fsync=on"}
	if s.Race {
		s.Build = slices.Concat(failpoints, []string{"-race"})
	}
	s.Env = []string{
		"NOTIFY_ZONE=" + hours.Zone, "NOTIFY_MORNING=" + hours.Morning, "NOTIFY_DIGEST_TIMES=" + hours.Digests,
		"WORKER_RETRY_DELAY=200", "KEYFOLD_FAILPOINT_LOG=" + s.hits,
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	setUp, cancel := context.WithTimeout(ctx, setUpLimit)
	defer cancel()
	if _, err := s.Run(setUp, nil, nil, "notify", "setup"); err != nil {
		return err
	}
	if err := s.publishNext(setUp); err != nil {
		return err
	}
	if err := s.startProcesses(); err != nil {
		return err
	}
	traffic, err := workload.New(workload.Config{Seed: s.Seed, Users: s.Users, Expires: expires})
	if err != nil {
		return err
	}
	s.feed = &notifyFeed{
		publisher: s.publisher("feed"), posts: s.posts, traffic: traffic, laws: s.laws, rate: s.Rate,
		random: rand.New(rand.NewPCG(s.Seed, 0x66656564)), inMerges: map[string]bool{},
	}
	s.reports = newNotifyReports(s.publisher("reports"), s.feed, s.Seed)
	s.AtEnd(s.reports.close)
	s.senders = workload.Receive(s.DSN, s.reports.of)
	s.AtEnd(s.senders.Close)
	s.say("set up")
	s.began = time.Now()
	return nil
}

// expires has those types expire that caps hold: what a cap holds for longer ends then.
func expires(r *rand.Rand, kind notify.EventType) time.Duration {
	if kind == notify.Promo || kind == notify.Digest {
		return 20*time.Second + time.Duration(r.IntN(100))*time.Second
	}
	return 0
}

// startProcesses starts the APIs and the workers.
func (s *notifySoak) startProcesses() error {
	for range s.APIs {
		address, err := s.Address()
		if err != nil {
			return err
		}
		s.posts = append(s.posts, address)
	}
	s.apis = newFleet(s.Stack.Dir, func(slot int, points string) *exec.Cmd {
		return s.Command([]string{"HTTP_ADDR=" + s.posts[slot], "KEYFOLD_FAILPOINTS=" + points}, "notify", "serve")
	}, s.say)
	s.apis.name = "api"
	s.AtEnd(s.apis.close)
	s.workers = newFleet(s.Stack.Dir, func(_ int, points string) *exec.Cmd {
		return s.Command([]string{"KEYFOLD_FAILPOINTS=" + points}, "notify", "work")
	}, s.say)
	s.AtEnd(s.workers.close)
	return errors.Join(s.apis.scale(s.APIs), s.workers.scale(s.Workers))
}

// report prints what happened.
func (s *notifySoak) report() {
	line := s.line
	line("seed %d, %v of faults, %d workers and %d APIs", s.Seed, s.took.Round(time.Second), s.Workers, s.APIs)
	line("actions      %s", counted(s.counts))
	if s.workers != nil {
		line("kill -9      %d; worker ends: %s; API ends: %s", s.counts.kills(), s.workers.waysToEnd(), s.apis.waysToEnd())
		line("workers saw  %d redelivered, %d conflicts, %d unknown outcomes, %d dispatched again, %d known, %d retries",
			s.workers.sum("keyfold_rabbitmq_redelivered_total"), s.workers.total("keyfold_notify_conflicts_total"),
			s.workers.total("keyfold_notify_unknown_outcomes_total"), s.workers.total("keyfold_notify_dispatched_again_total"),
			s.workers.total(`keyfold_notify_handled_total{outcome="known"}`), s.workers.total(`keyfold_notify_handled_total{outcome="retry"}`))
	}
	if s.feed != nil {
		line("published    %d events: %d by the API, %d by AMQP; %d of them twice or more, %d posts tried again",
			s.laws.Count(), s.feed.posted.Load(), s.feed.published.Load(), s.feed.repeated.Load(), s.feed.again.Load())
	}
	if s.feed != nil {
		line("beside       %d events that replace, %d cancellations, %d changes of preferences, %d merges",
			s.feed.replacing.Load(), s.feed.cancelled.Load(), s.feed.changed.Load(), s.feed.merged.Load())
	}
	if s.reports != nil {
		line("reports      %d of deliveries, half of them by the API", s.reports.confirmed.Load())
	}
	missed, _ := s.missed(failpoint.NotificationNames, false)
	line("failpoints   %d of %d met", len(failpoint.NotificationNames)-len(missed), len(failpoint.NotificationNames))
	if s.findings != nil {
		line("rules        %d sets published, %d decided something", s.published.Load(), len(s.findings.Sets))
		line("%s", s.findings)
	}
}

// sum returns a counter summed over its labels, as total does.
func (f *fleet) sum(metric string) (n int64) {
	f.mu.Lock()
	var series []string
	for name := range f.totals {
		if strings.HasPrefix(name, metric+"{") {
			series = append(series, name)
		}
	}
	f.mu.Unlock()
	for _, name := range series {
		n += f.total(name)
	}
	return n
}

// waysToEnd tells how processes ended.
func (f *fleet) waysToEnd() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return counted(f.ends)
}
