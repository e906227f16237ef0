package app

import (
	"errors"
	"fmt"
	"net"
)

// Servers says where the daemon's servers are.
type Servers struct {
	RabbitMQ string `name:"rabbitmq-dsn" env:"RABBITMQ_DSN" default:"amqp://guest:guest@127.0.0.1:5672/" help:"amqp:// or amqps:// address of RabbitMQ." group:"servers" for:"broker"`
	MongoDB  string `name:"mongodb-uri" env:"MONGODB_URI" default:"mongodb://127.0.0.1:27017/" help:"mongodb:// or mongodb+srv:// address of MongoDB." group:"servers" for:"store"`
	Database string `name:"mongodb-database" env:"MONGODB_DATABASE" default:"keyfold" help:"Database in MongoDB." group:"servers" for:"store"`
	Format   string `name:"embedding-format" env:"EMBEDDING_FORMAT" default:"array" words:"array,binary" help:"How vectors of profiles are written: array, which every program reads, or binary: the doubles alone, in fewer bytes. Both are read." group:"folding" for:"store"`
	Admin    string `name:"admin-addr" env:"ADMIN_ADDR" default:"127.0.0.1:9090" help:"Where /metrics, /livez and /readyz are served." group:"servers" for:"admin"`
	SQL      string `name:"database-url" env:"DATABASE_URL" default:"" help:"SQL database of the outbox: mysql://user:password@host:3306/name (MySQL 8, MariaDB 10.6), postgres://user:password@host:5432/name (PostgreSQL 12) or sqlite:///file." group:"servers" for:"database"`
}

// Check reports what no server has to be asked for, every fault at once.
func (s Servers) Check() error {
	var faults []error
	if _, _, err := net.SplitHostPort(s.Admin); err != nil {
		faults = append(faults, fmt.Errorf("ADMIN_ADDR is %q: it must be host:port, such as 127.0.0.1:9090", s.Admin))
	}
	return errors.Join(append(faults, CheckPort("ADMIN_ADDR", s.Admin))...)
}

// CheckPort judges the port of an address host:port to listen on, and ignores text
// that is no such address. The error names the environment variable.
func CheckPort(name, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil //nolint:nilerr // the check of the whole address reports it
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%s is %q: the port must be from 0 (any free one) to 65535", name, address)
	}
	return nil
}
