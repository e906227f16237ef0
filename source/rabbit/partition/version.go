package partition

import (
	"fmt"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"keyfold/engine"
	"keyfold/engine/cure"
	"keyfold/source/rabbit/topology"
)

// CheckVersion refuses brokers that do not share partitions out: before RabbitMQ 4.0 a
// queue with a single active consumer knows no priorities. properties are the broker's.
func CheckVersion(properties amqp.Table) error {
	version, _ := properties["version"].(string)
	major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0])
	if known := err == nil; !known || major >= 4 {
		return nil
	}
	return engine.ConfigurationError(topology.ReasonNotPartitioned, fmt.Errorf(
		"rabbitmq: the broker is RabbitMQ %s, and only 4.0 or newer spreads partitions over workers: "+
			"give each worker its own by %s, such as 0-7, or use a newer broker", version, cure.Name("partition.Owned")))
}
