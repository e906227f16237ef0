package reach

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// StatusFlags say what `keyfold status` asks beside the servers.
type StatusFlags struct {
	Management string   `name:"rabbitmq-management-url" env:"RABBITMQ_MANAGEMENT_URL" help:"RabbitMQ's management: http://user:password@host:15672. Without a user, that of RABBITMQ_DSN."`
	Processes  []string `name:"processes" env:"STATUS_PROCESSES" help:"ADMIN_ADDR of workers, relays and APIs: host:port, comma-separated. A name stands for all its addresses, and with a ? behind the port it may have none."`
}

// MayBeMissing marks an address of STATUS_PROCESSES whose name stands for no process where a part of
// keyfold is not used.
const MayBeMissing = "?"

// Check reports every fault at once.
func (f StatusFlags) Check() error {
	_, err := f.ManagementURL()
	faults := []error{err}
	for _, address := range f.Processes {
		if _, _, err := net.SplitHostPort(strings.TrimSuffix(address, MayBeMissing)); err != nil {
			faults = append(faults, fmt.Errorf("STATUS_PROCESSES has %q: each must be host:port, such as worker-1:9090", address))
		}
	}
	return errors.Join(faults...)
}

// ManagementURL returns the address of RabbitMQ's management, nil where none is set. The error
// does not repeat the address, which may hold a password.
func (f StatusFlags) ManagementURL() (*url.URL, error) {
	if f.Management == "" {
		return nil, nil //nolint:nilnil // documented
	}
	base, err := url.Parse(f.Management)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("RABBITMQ_MANAGEMENT_URL is no address: it must be like http://user:password@127.0.0.1:15672, " +
			"with reserved characters in user and password percent-encoded; without a user, that of RABBITMQ_DSN is used")
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	return base, nil
}
