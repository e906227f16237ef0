// Package topology declares keyfold's exchanges, queues and bindings at RabbitMQ, and says what
// a broker has of them.
//
//	Setup            declares all that a Config asks for; idempotent
//	Config.Check     compares a consumer's queues with what Setup declares
//	Ask, Watch       the number of partitions, now and when it changes
//	CheckSlots       slots that an interrupted setup left without their partition
//	Retired          queues that the present number of partitions has no use for
//	States, Depths   what waits in queues
//
// Reading order: topology.go has one queue, partitions.go has several, with the reason why no
// event is ever in two queues while their number changes. layout.go and layout_state.go read
// back what setups have left at the broker; net.go is what keeps a policy from dropping events.
package topology
