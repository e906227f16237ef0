package settings

import (
	"errors"
	"fmt"
	"net"
)

// Servers says where the daemon's servers are.
type Servers struct {
	RabbitMQ  string `name:"rabbitmq-dsn" env:"RABBITMQ_DSN" default:"amqp://guest:guest@127.0.0.1:5672/" help:"amqp:// or amqps:// address of the broker." group:"servers"`
	QueueType string `name:"rabbitmq-queue-type" env:"RABBITMQ_QUEUE_TYPE" enum:"classic,quorum" default:"classic" help:"classic, or quorum for clusters." group:"servers"`
	MongoDB   string `name:"mongodb-uri" env:"MONGODB_URI" default:"mongodb://127.0.0.1:27017/" help:"mongodb:// or mongodb+srv:// address of the store." group:"servers"`
	Database  string `name:"mongodb-database" env:"MONGODB_DATABASE" default:"keyfold" help:"Database of the store." group:"servers"`
	Admin     string `name:"admin-addr" env:"ADMIN_ADDR" default:"127.0.0.1:9090" help:"Where /metrics, /livez and /readyz are served." group:"servers"`
}

// Check reports what no server has to be asked for, every fault at once.
func (s Servers) Check() error {
	var faults []error
	if _, _, err := net.SplitHostPort(s.Admin); err != nil {
		faults = append(faults, fmt.Errorf("ADMIN_ADDR is %q: it must be host:port, such as 127.0.0.1:9090", s.Admin))
	}
	return errors.Join(faults...)
}
