package rabbit

import (
	"cmp"

	"keyfold/engine/cure"
)

// What cures faults of the broker.
const (
	dsnSetting        cure.Name = "rabbit.DSN"
	queueTypeSetting  cure.Name = "topology.Config.QueueType"
	prioritiesSetting cure.Name = "topology.Config.Priorities"
)

// SetupStreamsCommand makes streams.
const SetupStreamsCommand cure.Name = "rabbit.SetupStreams"

// SetupCommand is what declares all this.
func (n Names) SetupCommand() cure.Name { return cmp.Or(n.Setup, "rabbit.Setup") }

// ShowCommand is what shows a dead letter.
func (n Names) ShowCommand() cure.Name { return cmp.Or(n.Show, "rabbit.Show") }
