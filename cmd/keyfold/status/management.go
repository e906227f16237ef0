package status

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"keyfold/engine/causes"
	"keyfold/source/rabbit"
)

// management is the HTTP API of RabbitMQ's plugin rabbitmq_management.
type management struct {
	base           url.URL
	user, password string
	vhost          string
	client         http.Client
}

// newManagement returns nil where base is. Where base names no user, it takes that of the DSN.
func newManagement(base *url.URL, dsn string) (m *management, err error) {
	if base == nil {
		return nil, nil //nolint:nilnil // documented
	}
	m = &management{client: http.Client{Timeout: patience}, base: url.URL{Scheme: base.Scheme, Host: base.Host, Path: base.Path}}
	if m.user, m.password, m.vhost, err = rabbit.Account(dsn); err != nil {
		return nil, err
	}
	if base.User != nil {
		m.user = base.User.Username()
		m.password, _ = base.User.Password()
	}
	return m, nil
}

// managedQueue is a queue as the API has it. A broker that gathers no statistics leaves
// the times out.
type managedQueue struct {
	Name           string `json:"name"`
	Unacknowledged *int   `json:"messages_unacknowledged"`
	Head           int64  `json:"head_message_timestamp"` // Unix seconds; 0: not known

	Policy    string          `json:"policy"`    // the name of the one on it; "": none
	Arguments json.RawMessage `json:"arguments"` // an object, or an empty array
}

// queues returns the queues of the virtual host by name. Their numbers are of now; the
// times, which the broker knows of messages of classic queues in its memory, are some
// seconds old.
func (m *management) queues(ctx context.Context) (map[string]managedQueue, error) {
	var totals, heads []managedQueue
	path := "/api/queues/" + url.PathEscape(m.vhost)
	if err := m.get(ctx, path, "disable_stats=true&enable_queue_totals=true", &totals); err != nil {
		return nil, err
	}
	if err := m.get(ctx, path, "columns=name,head_message_timestamp", &heads); err != nil {
		return nil, err
	}
	queues := make(map[string]managedQueue, len(totals))
	for _, q := range totals {
		queues[q.Name] = q
	}
	for _, head := range heads {
		if q, found := queues[head.Name]; found {
			q.Head = head.Head
			queues[head.Name] = q
		}
	}
	return queues, nil
}

// slotQueues returns the queues that take the events of each slot, by its routing key.
func (m *management) slotQueues(ctx context.Context, names rabbit.Names) (map[string][]string, error) {
	queues := map[string][]string{}
	for _, exchange := range []string{names.Slots, names.InnerExchange(names.Slots)} {
		var bindings []struct {
			Queue string `json:"destination"`
			Type  string `json:"destination_type"`
			Key   string `json:"routing_key"`
		}
		path := "/api/exchanges/" + url.PathEscape(m.vhost) + "/" + url.PathEscape(exchange) + "/bindings/source"
		if err := m.get(ctx, path, "", &bindings); err != nil {
			return nil, err
		}
		for _, b := range bindings {
			if b.Type == "queue" && !slices.Contains(queues[b.Key], b.Queue) {
				queues[b.Key] = append(queues[b.Key], b.Queue)
			}
		}
	}
	return queues, nil
}

// connectionOfWorker is how the name of the connection begins that each worker consumes with.
const connectionOfWorker = "keyfold worker consumer "

// workers counts the connections of workers; nil: the broker knows no connection by name,
// as where it gathers no statistics.
func (m *management) workers(ctx context.Context) (*int, error) {
	var connections []struct {
		Properties *struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	path := "/api/vhosts/" + url.PathEscape(m.vhost) + "/connections"
	if err := m.get(ctx, path, "columns=client_properties.connection_name", &connections); err != nil {
		return nil, err
	}
	workers, known := 0, false
	for _, c := range connections {
		if c.Properties != nil {
			known = true
			if strings.HasPrefix(c.Properties.Name, connectionOfWorker) {
				workers++
			}
		}
	}
	if !known {
		return nil, nil //nolint:nilnil // documented
	}
	return &workers, nil
}

// get asks the API. An error says nothing of user and password.
func (m *management) get(ctx context.Context, path, query string, into any) error {
	address := m.base
	address.RawPath = address.Path + path
	address.Path, _ = url.PathUnescape(address.RawPath)
	address.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth(m.user, m.password)
	res, err := m.client.Do(req)
	if err != nil {
		return causes.Ensure(causes.Management, err)
	}
	defer func() { _ = res.Body.Close() }()
	switch res.StatusCode {
	case http.StatusOK:
		if err := json.NewDecoder(res.Body).Decode(into); err != nil {
			return fmt.Errorf("what answers at RABBITMQ_MANAGEMENT_URL is not RabbitMQ's management: %w", err)
		}
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return causes.Explain(causes.Management, causes.Credentials, fmt.Errorf("it answers %s to the user %q", res.Status, m.user))
	default:
		return fmt.Errorf("RabbitMQ's management answers %s to %s: is RABBITMQ_MANAGEMENT_URL right?", res.Status, path)
	}
}

// ageOf returns the seconds since a queue's first message was stamped; nil: not known.
func (q managedQueue) ageOf(now time.Time) *float64 {
	if q.Head == 0 {
		return nil
	}
	age := max(0, now.Sub(time.Unix(q.Head, 0)).Seconds())
	return &age
}
