package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"keyfold/internal/cli"
	"keyfold/service/status"
)

// From these figures on a person is needed, as the alerts of deploy/alerts.yml have them.
const (
	maxDeadLetters  = 10
	maxReady        = 5000
	maxOutboxSecond = 60
	maxStreamSecond = 60
)

// judge adds what needs a person to the problems that the look itself has met.
func judge(r *status.Report) {
	for _, s := range r.Servers {
		if s.Error != "" {
			r.Add(s.Server, s.Error, "outage-of-a-server")
		}
	}
	judgeQueues(r)
	judgeStreams(r)
	judgeOutbox(r)
	for i := range r.Processes {
		judgeProcess(r, &r.Processes[i])
	}
	if lives := r.ShortHalfLives(); len(lives) > 1 {
		r.Problems = append(r.Problems, status.Problem{
			About: "workers", Text: "they have different half-lives of the profiles' second vector (" + strings.Join(lives, ", ") + "): each refuses what the others wrote",
			Cure: "give all of them one EMBEDDING_SHORT_HALF_LIFE",
		})
	}
}

func judgeQueues(r *status.Report) {
	ready, letters := map[string]int{}, map[string]int{}
	var missing []status.Queue
	unread := map[string][]status.Queue{}
	for _, q := range r.Queues {
		switch {
		case q.Missing:
			missing = append(missing, q)
		case q.Holds == status.Events:
			ready[q.Of] += q.Ready
			if q.Consumers == 0 {
				unread[q.Of] = append(unread[q.Of], q)
			}
		case q.Holds == status.DeadLetters:
			letters[q.Of] += q.Ready
		}
	}
	if len(missing) > 0 && !r.Away(status.RabbitMQ) {
		r.Problems = append(r.Problems, status.Problem{About: "queues", Text: namesOf(missing) + " not there", Cure: "run `" + missing[0].Setup + "`"})
	}
	judgeUnread(r, unread[status.OfProfiles], status.MongoDB, "store", "keyfoldstoredown")
	judgeUnread(r, unread[status.OfNotifications], status.Ledger, "ledger", "keyfoldnotifyledgerdown")
	for _, of := range []string{status.OfProfiles, status.OfNotifications} {
		command, long := "keyfold failed", "keyfoldqueuelong"
		if of == status.OfNotifications {
			command, long = "keyfold notify failed", "keyfoldnotifyqueuelong"
		}
		if n := ready[of]; n > maxReady {
			r.Problems = append(r.Problems, status.Problem{
				About: "queues", Text: fmt.Sprintf("%s of %s are ready: more than workers take", cli.Count(int64(n), "message"), of),
				Cure: "start more workers, or see why those that run are slow", Runbook: long,
			})
		}
		if n := letters[of]; n > maxDeadLetters {
			r.Problems = append(r.Problems, status.Problem{
				About: "dead letters", Text: fmt.Sprintf("%s of %s", cli.Count(int64(n), "dead letter"), of),
				Cure: fmt.Sprintf("`%[1]s stats` says why; cure it, then `%[1]s retry`", command), Runbook: "keyfolddeadletterswaiting",
			})
		}
	}
}

// judgeUnread tells of queues that no process consumes. Workers do not consume while the
// server that they write to is away: then there need be no more of them.
func judgeUnread(r *status.Report, unread []status.Queue, server, dependency, runbook string) {
	if len(unread) == 0 {
		return
	}
	p := status.Problem{
		About: "workers", Text: fmt.Sprintf("no process consumes from %s, where %s ready", namesOnly(unread), messages(unread)),
		Cure:    "start workers; those that run and do not consume are not ready, and say why",
		Runbook: "keyfoldnoconsumers",
	}
	waits := func(w status.Process) bool { return slices.Contains(w.Open, dependency) }
	if r.Away(server) || slices.ContainsFunc(r.Processes, waits) {
		p.Text += fmt.Sprintf(": workers wait for %s", server)
		p.Cure, p.Runbook = fmt.Sprintf("check that %s answers; workers that run go on by themselves, and no event is lost", server), runbook
	}
	r.Problems = append(r.Problems, p)
}

func judgeStreams(r *status.Report) {
	behind := 0.0
	for _, s := range r.Streams {
		if s.Fault != "" {
			r.Problems = append(r.Problems, status.Problem{About: s.Stream, Text: s.Fault, Runbook: "keyfoldstreamunread"})
		}
		behind = max(behind, s.Behind)
	}
	if behind > maxStreamSecond {
		r.Problems = append(r.Problems, status.Problem{
			About: "streams", Text: "the oldest event that is in no profile came " + cli.Age(seconds(behind)) + " ago",
			Cure: "check that workers run with RABBITMQ_STREAMS, and what their log says; more of them, up to the number of streams", Runbook: "keyfoldstreamlate",
		})
	}
}

func judgeOutbox(r *status.Report) {
	o := r.Outbox
	if o == nil {
		return
	}
	if o.OldestSeconds > maxOutboxSecond {
		r.Problems = append(r.Problems, status.Problem{
			About: "outbox", Text: fmt.Sprintf("%s not published, the oldest after %s", isOrAre(o.Unsent, "event"), cli.Age(seconds(o.OldestSeconds))),
			Cure: "check that `keyfold relay` runs, and what its log says", Runbook: "keyfoldoutboxnotpublished",
		})
	}
	if o.SetAside > 0 {
		r.Problems = append(r.Problems, status.Problem{
			About: "outbox", Text: isOrAre(o.SetAside, "row") + " set aside: the broker refuses what they hold",
			Cure: "`keyfold failed list --in sql` says why; cure it, then `keyfold failed retry`", Runbook: "keyfoldoutboxrowssetaside",
		})
	}
}

// sectionsOf are the runbook's sections of what a process says although it is ready, by what it is
// about.
var sectionsOf = map[string]string{"products": "keyfoldproductsmissing", "users": "a-hot-user", "caps": "tight-caps", "clock": "clocks-that-differ"}

func judgeProcess(r *status.Report, p *status.Process) {
	process := strings.TrimSpace(strings.Join(p.Roles, ", ") + " " + p.Address)
	switch {
	case p.Slow:
		r.Problems = append(r.Problems, status.Problem{
			About: process, Text: fmt.Sprintf("the process listens, and has not answered within %v: it is slow or stands still, and not gone", patience),
			Cure: "look again; where it stays so, see the CPU of its machine, and whether the process was stopped", Runbook: "keyfolddown",
		})
	case p.Error != "":
		r.Problems = append(r.Problems, status.Problem{
			About: process, Text: "the process does not answer: " + p.Error,
			Cure: "check that it runs, and that STATUS_PROCESSES names its ADMIN_ADDR", Runbook: "keyfolddown",
		})
	case !p.Ready:
		r.Add(process, "not ready: "+p.Reason, "keyfoldnotready")
	}
	for _, remark := range p.Remarks {
		if !strings.HasPrefix(remark, "partitions:") { // it stands by, as a spare one does
			about, _, _ := strings.Cut(remark, ":")
			r.Add(process, remark, sectionsOf[about])
		}
	}
}

// isOrAre writes "1 row is", "3 rows are".
func isOrAre(n int64, noun string) string {
	if n == 1 {
		return cli.Count(n, noun) + " is"
	}
	return cli.Count(n, noun) + " are"
}

func messages(queues []status.Queue) string {
	n := 0
	for _, q := range queues {
		n += q.Ready
	}
	return isOrAre(int64(n), "message")
}

// namesOnly writes the names of up to three queues, and how many more there are.
func namesOnly(queues []status.Queue) string {
	const most = 3
	var names []string
	for _, q := range queues[:min(most, len(queues))] {
		names = append(names, q.Name)
	}
	text := strings.Join(names, ", ")
	if more := len(queues) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func namesOf(queues []status.Queue) string {
	if len(queues) == 1 {
		return namesOnly(queues) + " is"
	}
	return namesOnly(queues) + " are"
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
