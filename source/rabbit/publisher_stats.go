package rabbit

import (
	"errors"
	"fmt"
	"sync/atomic"

	"keyfold/engine/causes"
	"keyfold/engine/metric"
)

// PublisherStats counts since the start, except for the gauge. Its fields are
// read with Load.
type PublisherStats struct {
	Connects  atomic.Int64
	Published atomic.Int64 // messages written
	Confirmed atomic.Int64 // taken over by the broker
	Returned  atomic.Int64 // no queue wanted them
	Nacked    atomic.Int64 // refused by the broker
	Unknown   atomic.Int64 // neither confirmed nor refused in time
	Blocked   atomic.Int64 // gauge: 1 while an alarm stops publishing

	alarm atomic.Pointer[string] // what the broker said of the last alarm
}

// Alarm returns the alarm that stops publishing now, nil for none.
func (s *PublisherStats) Alarm() error {
	if s.Blocked.Load() == 0 {
		return nil
	}
	return causes.Blocked(*s.alarm.Load(), errAlarm)
}

var errAlarm = errors.New("rabbitmq: an alarm is on")

// Register adds the publisher's series to set.
func (p *Publisher) Register(set *metric.Set) { p.register(set, "") }

// RegisterOf adds the series to set, with what is published as their label: a process may
// have several publishers.
func (p *Publisher) RegisterOf(set *metric.Set, published string) {
	p.register(set, fmt.Sprintf("{publisher=%q}", published))
}

func (p *Publisher) register(set *metric.Set, label string) {
	set.Gauge("keyfold_rabbitmq_publisher_blocked"+label, "1 while an alarm of the broker stops publishing.", metric.Int(p.Stats.Blocked.Load))
}
