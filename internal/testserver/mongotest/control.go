package mongotest

import (
	"time"
)

// controlCommand is the admin command by which a server in another process is
// told what to do.
const controlCommand = "keyfoldTest"

// Controls is what can be done to a server, in this process or in another:
// [Server] and [Remote] both have these methods.
type Controls struct {
	do func(order) (result, error)
}

// order is the command's document.
type order struct {
	Action string        `bson:"keyfoldTest"`
	Fault  *Fault        `bson:"fault,omitempty"`
	ID     int64         `bson:"id,omitempty"`
	For    time.Duration `bson:"for,omitempty"` // nanoseconds, 0 until further notice
}

// result is what its answer holds beside ok.
type result struct {
	ID    int64 `bson:"id,omitempty"`
	Count int   `bson:"count,omitempty"`
	Stats Stats `bson:"stats,omitempty"`
}

// Inject puts a fault in force and returns its number. Faults add up; the order
// in which they came decides which one strikes first.
func (c *Controls) Inject(f Fault) (int64, error) {
	r, err := c.do(order{Action: "inject", Fault: &f})
	return r.ID, err
}

// Remove ends the fault of that number, one that is over already included; 0
// ends all faults, and turns the failpoint failCommand off.
func (c *Controls) Remove(id int64) error { return c.simple(order{Action: "remove", ID: id}) }

// StepDown makes the server a secondary, for d or (d = 0) until StepUp. Writes
// fail with code 10107, and reads that need a primary with 13435. Monitoring clients
// are told at once.
func (c *Controls) StepDown(d time.Duration) error {
	return c.simple(order{Action: "stepDown", For: d})
}

// StepUp makes the server the primary again.
func (c *Controls) StepUp() error { return c.simple(order{Action: "stepUp"}) }

// Pause leaves everything unanswered, for d or (d = 0) until Resume, as a
// stopped process does: what was received meanwhile is executed afterwards.
func (c *Controls) Pause(d time.Duration) error { return c.simple(order{Action: "pause", For: d}) }

// Resume ends a pause.
func (c *Controls) Resume() error { return c.simple(order{Action: "resume"}) }

// RefuseConnections resets every new connection at once, for d or (d = 0) until
// AcceptConnections. Those that are open go on; see Disconnect.
func (c *Controls) RefuseConnections(d time.Duration) error {
	return c.simple(order{Action: "refuse", For: d})
}

// AcceptConnections ends RefuseConnections.
func (c *Controls) AcceptConnections() error { return c.simple(order{Action: "accept"}) }

// Disconnect closes every connection.
func (c *Controls) Disconnect() error { return c.simple(order{Action: "disconnect"}) }

// StallReplication keeps every further write from reaching a majority: writes
// with w: "majority" wait, reads with local read concern see what they wrote,
// and reads with majority read concern see what was there before.
func (c *Controls) StallReplication() error { return c.simple(order{Action: "stall"}) }

// DelayReplication lets every further write reach a majority after d. Writes
// held up before reach it now.
func (c *Controls) DelayReplication(d time.Duration) error {
	return c.simple(order{Action: "delay", For: d})
}

// Replicate lets everything held up, and every further write at once, reach a
// majority.
func (c *Controls) Replicate() error { return c.simple(order{Action: "replicate"}) }

// Rollback is a failover to a member without the writes that have not reached a
// majority: they are discarded, and what retries of them would find with them,
// every connection is closed and a new term begins. Replication works again. It
// returns how many documents changed.
//
// Creating and dropping collections and indexes is not rolled back.
func (c *Controls) Rollback() (int, error) {
	r, err := c.do(order{Action: "rollback"})
	return r.Count, err
}

// Stats returns the server's counters.
func (c *Controls) Stats() (Stats, error) {
	r, err := c.do(order{Action: "stats"})
	return r.Stats, err
}

func (c *Controls) simple(o order) error {
	_, err := c.do(o)
	return err
}

// act carries out an order.
func (s *Server) act(o order) (r result, err error) {
	switch o.Action {
	case "inject":
		if o.Fault == nil {
			return r, fail(codeBadValue, "mongotest: inject needs a fault")
		}
		r.ID, err = s.store.faults.add(*o.Fault)
	case "remove":
		s.store.faults.remove(o.ID)
	case "stepDown":
		s.topology.stepDown(o.For)
	case "stepUp":
		s.topology.stepUp()
	case "pause", "resume":
		s.paused.set(o.Action == "pause", o.For)
	case "refuse", "accept":
		s.refusing.set(o.Action == "refuse", o.For)
	case "disconnect":
		s.disconnect(public)
	case "stall", "delay", "replicate":
		s.store.replication.setMode(o.Action == "stall", o.For)
	case "rollback":
		// Who comes again at once comes after it, and is not sent away twice.
		r.Count, err = s.store.rollBack(func() { s.disconnect(public) })
		s.topology.elected()
	case "stats":
		r.Stats = s.store.counters.stats()
	default:
		err = fail(codeBadValue, "mongotest: unknown action %q", o.Action)
	}
	return r, err
}

// public chooses the connections that suffer faults.
func public(c *conn) bool { return !c.private.Load() }
