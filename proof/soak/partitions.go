package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"keyfold/engine"
	"keyfold/engine/failpoint"
	"keyfold/engine/profile"
	"keyfold/proof/stack"
	"keyfold/source/rabbit"
)

// partitionsCmd is the soak of partitions.
type partitionsCmd struct {
	Settings partitionSettings `embed:""`
	Keep     bool              `help:"Keep logs and data also where nothing is wrong."`
}

// partitionSettings say what a run is.
type partitionSettings struct {
	Seed       uint64        `help:"Of the plan and the events; 0: a new one, which is printed."`
	Duration   time.Duration `default:"15m" help:"How long workers come and go."`
	Every      time.Duration `default:"30s" help:"How often a worker is added or killed."`
	Workers    int           `default:"5" help:"Workers at most at once; killing goes down to two."`
	Partitions []int         `default:"8,16,8" help:"Numbers of partitions, one after the other."`
	Kills      int           `default:"50" help:"kill -9 of keyfold partition."`
	Rate       int           `default:"100" help:"Events a second."`
	Dimensions int           `default:"256" help:"Components of vectors."`
	Data       string        `env:"KEYFOLD_TEST_DATA" placeholder:"DIR" help:"Folder of real event logs."`
	Race       bool          `help:"Build the processes with the race detector."`

	Dir      string    `kong:"-"` // for logs and data
	Programs string    `kong:"-"` // folder of what was built before; "": the run builds
	Out      io.Writer `kong:"-"`
}

// busyShare is the share of the events that are one user's.
const busyShare = 0.1

// Run soaks once.
func (c *partitionsCmd) Run(ctx context.Context) error {
	s := c.Settings
	s.Seed, s.Out = seedOr(s.Seed), os.Stdout
	return inFolder(s.Out, s.Seed, c.Keep, nothingWrong, func(dir string) error {
		s.Dir = dir
		p, err := runPartitions(ctx, s)
		if p != nil {
			p.report()
			err = errors.Join(err, p.slow())
		}
		return err
	})
}

// partitionSoak is one run.
type partitionSoak struct {
	*soak
	plan     partitionSettings
	names    rabbit.Names
	stages   *fleet // `keyfold partition`
	watch    *watch
	delays   delays
	result   *result
	profiles map[int32]*profile.Profile

	active  atomic.Int64 // how many partitions there are
	working atomic.Int64 // process id of the stage that the broker delivers to
}

// stages is how many processes of `keyfold partition` run: one takes the common queue, one
// waits for it to end.
const stages = 2

// rabbitMQ is the version that spreads partitions over workers.
const rabbitMQ = 4

// before is how many events are published while there is one queue.
const before = 400

// runPartitions is one soak, from the first server to the verdict. The result is not nil
// where the workers were started.
func runPartitions(ctx context.Context, c partitionSettings) (p *partitionSoak, err error) {
	if c.Workers < fewestWorkers || len(c.Partitions) == 0 {
		return nil, fmt.Errorf("--workers is %d and --partitions are %d: there must be %d workers and one number of partitions at least", c.Workers, c.Partitions, fewestWorkers)
	}
	s, err := prepare(ctx, settings{
		Seed: c.Seed, Duration: c.Duration, Workers: c.Workers, Rate: c.Rate, Race: c.Race, Dimensions: c.Dimensions, Short: time.Minute, Data: c.Data,
		Busy: busyShare, Plain: true, Direct: true, Version: rabbitMQ, Dir: c.Dir, Programs: c.Programs, Out: c.Out,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	p = &partitionSoak{soak: s, plan: c, names: rabbit.DefaultNames(), watch: newWatch(), delays: delays{map[sentKey]sent{}}}
	s.feed.confirmed = p.delays.add
	p.stages = newFleet(c.Dir, func(_ int, points string) *exec.Cmd {
		return s.Command([]string{"KEYFOLD_FAILPOINTS=" + points}, "partition")
	}, s.say)
	p.stages.name = "stage"
	s.AtEnd(p.stages.close)
	if err := p.play(ctx); err != nil {
		s.fleet.close()
		return p, err
	}
	return p, p.conclude(ctx)
}

// play begins with events in one queue and partitions it, starts the processes, and has
// workers come and go.
func (p *partitionSoak) play(ctx context.Context) error {
	if err := p.feed.publish(ctx, before); err != nil {
		return err
	}
	sendBySlot(rand.New(rand.NewPCG(p.Seed, 0x736c6f74)), p.feed.messages[before:])
	if err := p.partition(ctx, p.plan.Partitions[0]); err != nil {
		return err
	}
	p.Env = append(p.Env, fmt.Sprintf("RABBITMQ_PARTITIONS=%d", p.plan.Partitions[0])) // a worker asks the broker for the number there is
	p.watch.changed(scale, time.Now())
	if err := errors.Join(p.stages.scale(stages), p.fleet.scale(min(p.Workers, startWorkers))); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	looking, seen := context.WithCancel(ctx)
	defer seen()
	feeding, fed := context.WithCancel(ctx)
	defer fed()
	ends := make(chan error, 2)
	go func() { ends <- p.feed.run(feeding) }()
	go func() { ends <- p.look(looking) }()
	line := timeline{}
	plan := partitionPlan(p.plan)
	p.say("plan: %d steps in %v", len(plan), p.Duration)
	err := line.follow(ctx, plan, p.Duration, p.do)
	fed()
	if err == nil {
		err = p.settle(ctx)
	}
	seen()
	return errors.Join(err, <-ends, <-ends)
}

// sendBySlot has half of the messages published by their user's slot. Who publishes an
// event that cannot be read has some user in mind.
func sendBySlot(r *rand.Rand, messages []rabbit.Message) {
	names := rabbit.DefaultNames()
	sendHalf(r, messages, names.Slots)
}

// sendHalf has half of the messages published by their user's slot to an exchange.
func sendHalf(r *rand.Rand, messages []rabbit.Message, exchange string) {
	names := rabbit.DefaultNames()
	for i, m := range messages {
		if r.IntN(2) == 0 {
			continue
		}
		if e, good := parse(m.Body); good {
			messages[i] = names.SlotMessage(m.Body, &e)
		} else {
			messages[i].RoutingKey = names.SlotKey(r.IntN(engine.Slots))
		}
		messages[i].Exchange = exchange
	}
}

// partition sets the number of partitions.
func (p *partitionSoak) partition(ctx context.Context, n int) error {
	p.active.Store(int64(n))
	_, err := p.Run(ctx, nil, nil, "setup", fmt.Sprintf("--partitions=%d", n))
	return err
}

// do carries out one step and looks at the processes.
func (p *partitionSoak) do(ctx context.Context, st step) error {
	p.say("%s  (planned at %.1fs)", st, st.At.Seconds())
	p.counts[st.Do]++
	if st.Do != killStage {
		p.watch.changed(st.Do, time.Now())
	}
	var err error
	switch st.Do {
	case killStage:
		err = p.killStage(ctx, st)
	case repartition:
		err = p.partition(ctx, st.Count)
	case addWorker:
		err = p.fleet.add()
	default:
		var w *worker
		if w, err = p.fleet.await(ctx, st.Which); err != nil {
			return err
		}
		if st.Do == dropWorker {
			p.fleet.drop(w)
		} else {
			p.fleet.kill(w)
		}
	}
	return errors.Join(err, p.fleet.fault(), p.stages.fault())
}

// killStage kills the stage that works. Half of the time the one that is started in its
// place dies at a failpoint, when it comes to work.
func (p *partitionSoak) killStage(ctx context.Context, st step) error {
	w, err := p.stages.await(ctx, st.Which)
	if err != nil {
		return err
	}
	for _, other := range p.stages.running() {
		if int64(other.PID()) == p.working.Load() {
			w = other
		}
	}
	if st.Which%2 == 0 {
		points := failpoint.PartitionNames
		p.stages.arm(w.slot, fmt.Sprintf("%s=exit:%d", points[st.Which/2%len(points)], 1+st.Which%25))
	}
	p.stages.kill(w)
	return nil
}

// lookEvery is how often the broker is asked for its queues.
const lookEvery = 250 * time.Millisecond

// look asks the broker for the partitions until ctx ends.
func (p *partitionSoak) look(ctx context.Context) error {
	for ctx.Err() == nil {
		l := look{at: time.Now(), active: int(p.active.Load())}
		queues, err := p.Broker.Queues("/")
		if err != nil {
			return err
		}
		for _, w := range p.fleet.running() {
			l.live = append(l.live, w.PID())
		}
		for i := range rabbit.MaxPartitions {
			q, declared := queues[p.names.PartitionQueue(i)]
			if !declared {
				break
			}
			l.queues = append(l.queues, partition{owner: pidOf(q.Active), ready: q.Ready, messages: q.Messages})
		}
		p.working.Store(int64(pidOf(queues[p.names.CommonQueue()].Active)))
		p.watch.see(l)
		_ = stack.Wait(ctx, lookEvery) // the loop tells of the end
	}
	return nil
}

// pidOf returns the id of the process that a consumer's tag names, 0 for none.
func pidOf(tag string) int {
	colon := strings.LastIndexByte(tag, ':')
	pid := 0
	if colon >= 0 {
		_, _ = fmt.Sscanf(tag[colon:], ":%d", &pid) // 0 where there is none
	}
	return pid
}

// settle waits until the partitions are spread evenly and the retired queues empty.
func (p *partitionSoak) settle(ctx context.Context) error {
	p.say("waiting until the partitions are spread evenly and the retired queues empty")
	ctx, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	err := stack.Poll(ctx, lookEvery, func() (bool, error) { return p.watch.settled(), p.fleet.fault() })
	if err != nil {
		return fmt.Errorf("not within %v: %w", restLimit, err)
	}
	return nil
}

// replayHorizon brings back what a kill of the stage has made unprovable, as an operator
// would: an event of long ago that came to the stage a second time, of a user whose ids
// of that time were dropped. The events of a run occurred long before it, and a stage that
// is killed leaves no later time that is proof: see firstSeen in service/profile/partitioner.
func (p *partitionSoak) replayHorizon(ctx context.Context) error {
	if err := p.rest(ctx, 2); err != nil {
		return err
	}
	told, err := p.Run(ctx, nil, nil, "dlq", "replay", "--error", "past_horizon", "--force")
	p.say("dlq replay --error past_horizon --force: %s", strings.ReplaceAll(strings.TrimSpace(told), "\n", "; "))
	return err
}

// conclude brings the stack to rest and judges.
func (p *partitionSoak) conclude(ctx context.Context) (err error) {
	if err := p.replayHorizon(ctx); err != nil {
		return err
	}
	if p.result, err = p.soak.conclude(ctx); err != nil {
		return err
	}
	for _, w := range p.stages.running() {
		w.scrape()
	}
	p.stages.close()
	if err := p.stages.fault(); err != nil {
		return err
	}
	p.profiles, err = p.ReadProfiles(ctx)
	return err
}

// report prints what happened.
func (p *partitionSoak) report() {
	if p.result != nil {
		p.result.report()
	}
	line := p.line
	line("stages       %s", p.stages.waysToEnd())
	line("moves        %d of partitions, as the workers count them; %d events of %d written with a conflict",
		p.fleet.total("keyfold_partition_moves_total"), p.fleet.total("keyfold_conflicts_total"), p.ledger.published)
	for _, l := range append(p.watch.report(), p.delays.report(p.profiles)...) {
		line("%s", l)
	}
}

// slow returns what took longer than promised.
func (p *partitionSoak) slow() error {
	if faults := p.watch.slow(); len(faults) > 0 {
		return errors.New(strings.Join(faults, "\n"))
	}
	return nil
}
