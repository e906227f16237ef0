package main

// notifyCmd measures and proves the second application. Kills of its processes are in
// proof/soak.
type notifyCmd struct {
	Throughput throughputCmd   `cmd:"" help:"Decide what waits in the queues: decisions a second from queue to confirmed dispatch and acknowledgement, round trips to PostgreSQL, processor time."`
	Pair       pairCmd         `cmd:"" help:"Two workers on the same users: conflicts, and the throughput against one worker's."`
	Latency    latencyCmd      `cmd:"" help:"Publish at a rate: event to commit, event to dispatch."`
	Outage     ledgerOutageCmd `cmd:"" help:"Take PostgreSQL away under load: memory, dead letters, what expired meanwhile."`
	Backlog    backlogCmd      `cmd:"" help:"Publish urgent events beside a backlog of bulk events: how soon they are decided."`
	Deferrals  deferralsCmd    `cmd:"" help:"Deferrals that come due at one instant, and at a rate beside many that wait."`
	Histories  historiesCmd    `cmd:"" help:"Decide random histories twice, by the laws and by the oracle, and compare each decision and state."`
	Habits     habitsCmd       `cmd:"" help:"What counting users' responses gains, on users whose habits are known."`
	Bursts     burstsCmd       `cmd:"" help:"What becomes of bursts: of one user, and of many users at once."`
}
