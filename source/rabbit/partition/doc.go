// Package partition says which worker consumes which partition queue, and how.
//
// # Purpose
//
// A user's events have one slot of 64 for ever, and each partition queue takes the events of
// its slots. The workers share the queues out, so that one worker at a time holds a user's
// events: its window gathers all of them, its caches stay valid, and two workers do not fold
// the same profile against each other. Correctness does not depend on that. Where two workers
// hold events of one user for a moment, the store accepts the write of one of them, and the
// other folds again.
//
// # One owner at a time
//
// The broker is the only judge. Each partition queue has a single active consumer
// (x-single-active-consumer), and every worker consumes every queue with a priority of its
// own (x-priority, RabbitMQ 4.0; see [CheckVersion]). The broker delivers to the consumer with
// the highest priority: the owner. The others are standbys in a line behind it. When another
// consumer gets the highest priority, the broker delivers to that one only after the consumer
// before it has acknowledged all it holds, or has lost its channel. So ownership moves without
// a message between workers, and a worker that dies needs no time-out of keyfold's own.
//
// # Invariants
//
// "consume." marks a test of package consume, which runs workers against a broker.
//
//   - Workers that know the same two numbers, of partitions and of workers, compute the same
//     owners, in every version that may run beside another: TestOwnersOfEight.
//   - Each worker owns as many partitions as any other, or one more: TestOwnersAreBalanced,
//     consume.TestPartitionsAreSpread.
//   - One worker more moves only the partitions that it takes itself:
//     TestOwnersMoveAsLittleAsPossible.
//   - The owner alone has a positive priority, and no two workers have the same one. The
//     partitions of a worker that ends go to its standbys evenly:
//     TestStandbysShareThePartitionsOfAWorkerThatEnds.
//   - While no worker is killed, no event is delivered twice, and a user's unsettled events are
//     with one worker: consume.TestPartitionsAreSpread, consume.TestStopHandsPartitionsOver.
//   - A pause moves no partition: consume.TestPauseKeepsPartitions.
//   - A worker that does not settle the events of another owner's partition keeps them for a
//     bounded time: consume.TestAStandInGivesUp, consume.TestStandInIsLimited.
//   - The prefetches of the partitions that a worker owns add up to its own at most, or to one
//     for each partition: TestAllotment, consume.TestPrefetchBoundsPartitions.
//   - A worker that the broker no longer counts joins anew, since the others share its
//     partitions out: consume.TestLostMembership. No step of it waits for a silent broker
//     without a limit: consume.TestJoinIsBounded.
//
// # Outline
//
// A worker needs three numbers, and asks the broker for each.
//
//  1. The number of partitions is a fact of the layout exchange: topology.Ask. Workers follow a
//     new number within seconds (topology.Watch, consume.TestNumberOfPartitionsChanges). Queues
//     of a former number are shared out on their own: only they get nothing new.
//  2. The number of workers is that of the layout queue's consumers: each [Membership] is one.
//     It is polled each second and believed when two polls agree.
//  3. The worker's own number is the first exclusive queue that the broker grants it. The queue
//     goes with the connection, so that the number is free when its worker has ended. A number
//     that is not below the count is given up for a lower one.
//
// [Allot] makes of them what is [Desired] of each queue: owner or standby, priority, prefetch.
// The owner's prefetch is the worker's, divided by the most partitions that a worker owns; a
// standby's is the worker's divided by all, because it may have to stand in for all. Package
// consume brings that about, with one goroutine for each queue:
//
//   - A standby that becomes the owner, or an owner with another prefetch, starts a second
//     consumer on the same channel and cancels the first. What the first has received is read
//     before: no event leaves the worker.
//   - An owner that becomes a standby reads no more, closes the windows of the partition's
//     users and waits until all is acknowledged. Then it closes the channel, so that the broker
//     has back what was not read, and joins the line with a new one. After ten polls it closes
//     the channel in any case: the owner gets the rest as well, and the ids in the profiles
//     absorb what was folded already.
//   - For as long as two workers count differently, both may claim a partition. The higher
//     number has the higher priority: it is the new one.
//
// # Rejected
//
//   - Leases or a membership in a store: a second judge beside the broker, and the two can
//     disagree. The broker stops delivering to a dead connection in any case.
//   - Super streams and the consistent-hash exchange: plugins, and the ring is mapped anew when
//     the number of queues changes or a node restarts.
//   - Competing consumers with an affinity by user: windows were torn apart, and ten workers
//     were slower than one.
//   - One connection for each partition: up to 64 connections a worker.
//   - To cancel the consumer of a partition that moves: the next worker is active at once,
//     while this one still holds the users' events.
//   - To count the consumers of a partition queue: of a queue with a single active consumer the
//     broker counts the active one only (4.0.5).
package partition
